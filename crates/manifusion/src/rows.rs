//! Contiguous row-major batches of points or vectors, with the checks of their shape.

use crate::error::ShapeError;

/// `n` points of ℝᵐ, row-major and contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: &'a [f64],
    width: usize,
}

/// `n` points of ℝᵐ, row-major and contiguous, to be written.
#[derive(Debug)]
pub struct RowsMut<'a> {
    data: &'a mut [f64],
    width: usize,
}

fn check(len: usize, width: usize) -> Result<(), ShapeError> {
    if width == 0 || !len.is_multiple_of(width) {
        return Err(ShapeError::Ragged { len, width });
    }
    if len == 0 {
        return Err(ShapeError::Empty);
    }
    Ok(())
}

impl<'a> Rows<'a> {
    /// A view of `data` as rows of `width` numbers; an error if it is empty or ragged.
    pub fn new(data: &'a [f64], width: usize) -> Result<Self, ShapeError> {
        check(data.len(), width)?;
        Ok(Self { data, width })
    }

    /// A view of data that are known to be rows of `width` numbers.
    pub(crate) fn of_whole(data: &'a [f64], width: usize) -> Self {
        debug_assert!(check(data.len(), width).is_ok());
        Self { data, width }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.data.len() / self.width
    }

    /// Never true for rows made by [`Rows::new`].
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Numbers per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &'a [f64] {
        &self.data[i * self.width..(i + 1) * self.width]
    }

    /// Some of the rows; an error if there are none, or not so many.
    pub fn range(&self, rows: std::ops::Range<usize>) -> Result<Self, ShapeError> {
        let data = self.data.get(rows.start * self.width..rows.end * self.width);
        let data = data.ok_or(ShapeError::Len { found: rows.end, expected: self.len() })?;
        Self::new(data, self.width)
    }

    /// All rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'a, f64> {
        self.data.chunks_exact(self.width)
    }

    /// The numbers behind the rows.
    pub fn as_slice(&self) -> &'a [f64] {
        self.data
    }

    /// An error unless every row has `width` numbers.
    pub fn expect_width(&self, width: usize) -> Result<(), ShapeError> {
        expect_width(self.width, width)
    }
}

impl<'a> RowsMut<'a> {
    /// A mutable view of `data` as rows of `width` numbers; an error if it is empty or ragged.
    pub fn new(data: &'a mut [f64], width: usize) -> Result<Self, ShapeError> {
        check(data.len(), width)?;
        Ok(Self { data, width })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.data.len() / self.width
    }

    /// Never true for rows made by [`RowsMut::new`].
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Numbers per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.width..(i + 1) * self.width]
    }

    /// Row `i`, to be written.
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * self.width..(i + 1) * self.width]
    }

    /// All rows in order, to be written.
    pub fn rows_mut(&mut self) -> std::slice::ChunksExactMut<'_, f64> {
        self.data.chunks_exact_mut(self.width)
    }

    /// The same rows, borrowed for reading.
    pub fn as_rows(&self) -> Rows<'_> {
        Rows { data: self.data, width: self.width }
    }

    /// The same rows, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> RowsMut<'_> {
        RowsMut { data: self.data, width: self.width }
    }

    /// The numbers behind the rows.
    pub fn as_mut_slice(&mut self) -> &mut [f64] {
        self.data
    }

    /// An error unless every row has `width` numbers.
    pub fn expect_width(&self, width: usize) -> Result<(), ShapeError> {
        expect_width(self.width, width)
    }
}

fn expect_width(found: usize, expected: usize) -> Result<(), ShapeError> {
    if found == expected { Ok(()) } else { Err(ShapeError::Width { found, expected }) }
}

/// An error unless two batches have the same number of rows.
pub fn expect_len(found: usize, expected: usize) -> Result<(), ShapeError> {
    if found == expected { Ok(()) } else { Err(ShapeError::Len { found, expected }) }
}
