//! Someone else's division of the data: a file with the columns `row` and `part`.

use std::path::Path;

use manifusion::points::SplitPart;
use manifusion_io::read_table;

use crate::error::RunError;

/// The rows of a split file, counted from 0, with their parts.
pub(crate) fn read_split(path: &Path) -> Result<Vec<(usize, SplitPart)>, RunError> {
    let table = read_table(path)?;
    let problem = |problem: String| RunError::Content { path: path.to_owned(), problem };
    let column = |name: &str| {
        let found = table.columns.iter().position(|column| column.name == name);
        found.ok_or_else(|| {
            problem(format!(
                "a split file has the columns row and part, and this one has {}",
                table.column_names()
            ))
        })
    };
    let (rows, parts) = (column("row")?, column("part")?);
    let unreadable = |error: manifusion_io::DataError| problem(error.to_string());
    let (rows, parts) =
        (table.numbers(rows).map_err(unreadable)?, table.texts(parts).map_err(unreadable)?);
    let place = table.format.place();
    let one = |((row, part), line): ((f64, String), &u64)| {
        // Beyond 2^53 not every number is a double.
        if !(row >= 0.0 && row.fract() == 0.0 && row < 9e15) {
            let expected = "the number of a row, counted from 0";
            return Err(problem(format!("{place} {line}: row = {row} is not {expected}")));
        }
        let part = part_of(&part).ok_or_else(|| {
            problem(format!("{place} {line}: part = '{part}' is not train, validation or test"))
        })?;
        Ok((row as usize, part))
    };
    rows.into_iter().zip(parts).zip(&table.lines).map(one).collect()
}

fn part_of(name: &str) -> Option<SplitPart> {
    let parts = [SplitPart::Train, SplitPart::Validation, SplitPart::Test];
    parts.into_iter().find(|part| part.to_string() == name.trim())
}
