//! The small expression language of level sets: `x^2+y^2/4+z^2-1`, several constraints separated by
//! `;`.

use smallvec::SmallVec;

use super::{Constraints, Real};
use crate::error::SpecError;

/// Constraints written as text.
///
/// Variables are `x, y, z, w` or `x1, x2, …`; numbers, `pi`, `+ - * / ^`, parentheses and the
/// functions `sin cos tan exp ln sqrt sinh cosh tanh` are understood.
#[derive(Clone, Debug)]
pub struct Expressions {
    text: String,
    ambient_dim: usize,
    programs: Vec<Vec<Op>>,
}

/// One step of a stack machine.
#[derive(Clone, Copy, Debug)]
enum Op {
    Constant(f64),
    Variable(usize),
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    /// A constant whole exponent, exact for negative bases as well.
    PowerInt(i32),
    PowerConstant(f64),
    Power,
    Apply(Function),
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Sin,
    Cos,
    Tan,
    Exp,
    Ln,
    Sqrt,
    Sinh,
    Cosh,
    Tanh,
}

const FUNCTIONS: [(&str, Function); 9] = [
    ("sin", Function::Sin),
    ("cos", Function::Cos),
    ("tan", Function::Tan),
    ("exp", Function::Exp),
    ("ln", Function::Ln),
    ("sqrt", Function::Sqrt),
    ("sinh", Function::Sinh),
    ("cosh", Function::Cosh),
    ("tanh", Function::Tanh),
];

/// Nesting beyond this is refused, so that a hostile text cannot exhaust the stack.
const MAX_DEPTH: usize = 64;
const MAX_LENGTH: usize = 4096;

impl Expressions {
    /// Parses constraints separated by `;`.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let fail = |position, problem: String| SpecError::Expression {
            expression: text.chars().take(80).collect(),
            position,
            problem,
        };
        if text.len() > MAX_LENGTH {
            return Err(fail(MAX_LENGTH, format!("longer than {MAX_LENGTH} characters")));
        }
        let mut programs = Vec::new();
        let mut variables = 0;
        let mut start = 0;
        for part in text.split(';') {
            let mut parser = Parser {
                chars: part.chars().collect(),
                at: 0,
                depth: 0,
                code: Vec::new(),
                variables: 0,
            };
            parser.whole().map_err(|problem| fail(start + parser.at + 1, problem))?;
            variables = variables.max(parser.variables);
            programs.push(parser.code);
            start += part.chars().count() + 1;
        }
        if variables < 2 {
            return Err(fail(1, "at least two variables are needed".into()));
        }
        Ok(Self { text: text.to_string(), ambient_dim: variables, programs })
    }
}

impl Constraints for Expressions {
    fn name(&self) -> String {
        format!("level:{}", self.text)
    }

    fn ambient_dim(&self) -> usize {
        self.ambient_dim
    }

    fn count(&self) -> usize {
        self.programs.len()
    }

    fn eval<R: Real>(&self, x: &[R], c: &mut [R]) {
        for (program, c) in self.programs.iter().zip(c) {
            *c = run(program, x);
        }
    }
}

fn run<R: Real>(program: &[Op], x: &[R]) -> R {
    let mut stack: SmallVec<[R; 32]> = SmallVec::new();
    let zero = R::from(0.0);
    for op in program {
        // The parser only writes programs whose operands are there; `zero` is never used.
        let mut pop = || stack.pop().unwrap_or(zero);
        let value = match *op {
            Op::Constant(value) => R::from(value),
            Op::Variable(index) => x[index],
            Op::Negate => -pop(),
            Op::PowerInt(n) => pop().powi(n),
            Op::PowerConstant(p) => pop().powf(p),
            Op::Apply(function) => apply(function, pop()),
            Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Power => {
                let (right, left) = (pop(), pop());
                match op {
                    Op::Add => left + right,
                    Op::Subtract => left - right,
                    Op::Multiply => left * right,
                    Op::Divide => left / right,
                    _ => (right * left.ln()).exp(),
                }
            }
        };
        stack.push(value);
    }
    stack.pop().unwrap_or(zero)
}

fn apply<R: Real>(function: Function, value: R) -> R {
    match function {
        Function::Sin => value.sin(),
        Function::Cos => value.cos(),
        Function::Tan => value.tan(),
        Function::Exp => value.exp(),
        Function::Ln => value.ln(),
        Function::Sqrt => value.sqrt(),
        Function::Sinh => value.sinh(),
        Function::Cosh => value.cosh(),
        Function::Tanh => value.tanh(),
    }
}

/// Recursive descent: sum → product → sign → power → atom.
struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    code: Vec<Op>,
    variables: usize,
}

type Parsed = Result<(), String>;

impl Parser {
    fn whole(&mut self) -> Parsed {
        self.sum()?;
        match self.peek() {
            None => Ok(()),
            Some(c) => Err(format!("unexpected '{c}'")),
        }
    }

    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn sum(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.product()?;
        loop {
            let op = match self.peek() {
                Some('+') => Op::Add,
                Some('-') => Op::Subtract,
                _ => break,
            };
            self.at += 1;
            self.product()?;
            self.code.push(op);
        }
        self.depth -= 1;
        Ok(())
    }

    fn product(&mut self) -> Parsed {
        self.signed()?;
        loop {
            let op = match self.peek() {
                Some('*') => Op::Multiply,
                Some('/') => Op::Divide,
                _ => return Ok(()),
            };
            self.at += 1;
            self.signed()?;
            self.code.push(op);
        }
    }

    /// A sign binds weaker than a power: −x^2 is −(x^2).
    fn signed(&mut self) -> Parsed {
        let mut negative = false;
        loop {
            if self.take('-') {
                negative = !negative;
            } else if !self.take('+') {
                break;
            }
        }
        self.power()?;
        if negative {
            self.code.push(Op::Negate);
        }
        Ok(())
    }

    fn power(&mut self) -> Parsed {
        self.atom()?;
        if !self.take('^') {
            return Ok(());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        let start = self.code.len();
        self.signed()?;
        self.depth -= 1;
        let exponent = constant(&self.code[start..]);
        match exponent {
            Some(p) => {
                self.code.truncate(start);
                let whole = p.fract() == 0.0 && p.abs() <= 64.0;
                self.code.push(if whole { Op::PowerInt(p as i32) } else { Op::PowerConstant(p) });
            }
            None => self.code.push(Op::Power),
        }
        Ok(())
    }

    fn atom(&mut self) -> Parsed {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                self.sum()?;
                if self.take(')') { Ok(()) } else { Err("expected ')'".into()) }
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.word(),
            Some(c) => Err(format!("unexpected '{c}'")),
            None => Err("the expression ends too early".into()),
        }
    }

    fn number(&mut self) -> Parsed {
        let start = self.at;
        while let Some(&c) = self.chars.get(self.at) {
            let after_exponent = self.at > start && matches!(self.chars[self.at - 1], 'e' | 'E');
            let part = c.is_ascii_digit()
                || matches!(c, '.' | 'e' | 'E')
                || (after_exponent && matches!(c, '+' | '-'));
            if !part {
                break;
            }
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => {
                self.code.push(Op::Constant(value));
                Ok(())
            }
            _ => {
                self.at = start;
                Err(format!("'{text}' is not a number"))
            }
        }
    }

    fn word(&mut self) -> Parsed {
        let start = self.at;
        while self.chars.get(self.at).is_some_and(char::is_ascii_alphanumeric) {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        if let Some(&(_, function)) = FUNCTIONS.iter().find(|(name, _)| *name == word) {
            if !self.take('(') {
                return Err(format!("expected '(' after {word}"));
            }
            self.sum()?;
            if !self.take(')') {
                return Err("expected ')'".into());
            }
            self.code.push(Op::Apply(function));
            return Ok(());
        }
        if word == "pi" {
            self.code.push(Op::Constant(std::f64::consts::PI));
            return Ok(());
        }
        let Some(index) = variable(&word) else {
            self.at = start;
            return Err(format!(
                "unknown name '{word}'; variables are x, y, z, w or x1 … x64, functions sin cos tan exp ln \
                 sqrt sinh cosh tanh"
            ));
        };
        self.variables = self.variables.max(index + 1);
        self.code.push(Op::Variable(index));
        Ok(())
    }
}

fn variable(word: &str) -> Option<usize> {
    if let Some(index) = ["x", "y", "z", "w"].iter().position(|name| *name == word) {
        return Some(index);
    }
    let number: usize = word.strip_prefix('x')?.parse().ok()?;
    (1..=64).contains(&number).then(|| number - 1)
}

/// The value of code without variables.
fn constant(code: &[Op]) -> Option<f64> {
    let fixed = !code.iter().any(|op| matches!(op, Op::Variable(_)));
    fixed.then(|| run::<f64>(code, &[])).filter(|value| value.is_finite())
}
