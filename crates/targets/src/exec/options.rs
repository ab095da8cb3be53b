//! What a user sets of a program, and what its command and its environment are for one stream.

use serde::Deserialize;

use venturi_base::error::{Error, Result};
use venturi_base::given::Given;
use venturi_base::spec::{Data, Operation, TrialSpec, Values};

/// Bytes of a batch at most, where nothing is said.
const USUAL_BATCH: usize = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An Arrow IPC stream.
    #[default]
    Arrow,
    /// Records with a first one that names the columns; counted.
    Csv,
    /// Counted.
    Lines,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Csv => "csv",
            Self::Lines => "lines",
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<String>,
    pub format: Format,
    pub max_block_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            format: Format::default(),
            max_block_bytes: USUAL_BATCH,
        }
    }
}

impl Options {
    pub fn of(spec: &TrialSpec) -> Result<Self> {
        let found: Self = Given::new("exec", &spec.options).rest()?;
        let wrong = |what: &str| Err(Error::usage(format!("exec://: {what}")));
        if found.command.first().is_none_or(String::is_empty) {
            return wrong("names no program; give its command");
        }
        if found.command.iter().any(|word| word.contains('\0')) {
            return wrong("the command has a character of code 0, which no program can be given");
        }
        if !super::SYSTEM.operations.contains(&spec.operation) {
            return wrong("takes gets and puts");
        }
        if found.format != Format::Arrow && spec.operation == Operation::Put {
            return wrong("a put is an Arrow IPC stream; csv and lines are for gets");
        }
        if found.format != Format::Arrow && spec.data != Data::Remote {
            return wrong(
                "csv and lines are counted, and cannot be held against rows that are known",
            );
        }
        Ok(found)
    }
}

/// What a program is told, by the names of its placeholders; `None`: this trial has no such thing.
pub struct Told(Vec<(&'static str, Option<String>)>);

impl Told {
    pub fn of(spec: &TrialSpec, format: Format, stream: usize) -> Self {
        let operation = match spec.operation {
            Operation::Put => "put",
            _ => "get",
        };
        let (mut columns, mut values, mut seed) = (None, None, None);
        let (mut data, mut arrow_file) = (None, None);
        match &spec.data {
            Data::Records {
                columns: found,
                values: kind,
                seed: from,
            } => {
                let kind = match kind {
                    Values::Sequential => "sequential",
                    Values::Random => "random",
                };
                (columns, seed) = (Some(found.to_string()), Some(from.to_string()));
                values = Some(kind.to_owned());
            }
            Data::File { path, ipc } => {
                (data, arrow_file) = (Some(path.clone()), Some(ipc.clone()));
            }
            _ => {}
        }
        Self(vec![
            ("operation", Some(operation.into())),
            ("format", Some(format.name().into())),
            ("stream", Some(stream.to_string())),
            ("streams", Some(spec.streams.to_string())),
            ("rows", spec.rows_per_stream.map(|rows| rows.to_string())),
            ("rows_per_batch", Some(spec.rows_per_batch.to_string())),
            ("columns", columns),
            ("values", values),
            ("seed", seed),
            ("data", data),
            ("arrow_file", arrow_file),
        ])
    }

    /// `VENTURI_ROWS` and the others; what this trial has not is empty.
    pub fn environment(&self) -> impl Iterator<Item = (String, &str)> + '_ {
        let named = |name: &str| format!("VENTURI_{}", name.to_uppercase());
        let found = self.0.iter();
        found.map(move |(name, value)| (named(name), value.as_deref().unwrap_or_default()))
    }

    /// The command with its placeholders filled in. Braces around anything else stay.
    pub fn fill(&self, command: &[String]) -> Result<Vec<String>> {
        command.iter().map(|word| self.fill_word(word)).collect()
    }

    fn fill_word(&self, word: &str) -> Result<String> {
        let (mut filled, mut left) = (String::new(), word);
        while let Some(at) = left.find('{') {
            let (before, rest) = left.split_at(at);
            filled += before;
            let known = |name: &str| rest[1..].strip_prefix(name)?.strip_prefix('}');
            let found = self.0.iter().find_map(|(name, value)| {
                let after = known(name)?;
                Some((name, value, after))
            });
            left = match found {
                Some((_, Some(value), after)) => {
                    filled += value;
                    after
                }
                Some((name, None, _)) => {
                    let fix = match *name {
                        "rows" => "give --rows-per-stream",
                        "data" | "arrow_file" => "give --data FILE",
                        _ => "give --data records",
                    };
                    return Err(Error::usage(format!(
                        "exec://: the command has {{{name}}}, and this trial has none; {fix}"
                    )));
                }
                None => {
                    filled.push('{');
                    &rest[1..]
                }
            };
        }
        Ok(filled + left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(more: &str) -> Told {
        let spec = TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "exec://", "operation": "get", "streams": 2, "threads": 1,
                "rows_per_batch": 10, {more}}}"#
        ));
        Told::of(&spec.unwrap(), Format::Lines, 1)
    }

    #[test]
    fn placeholders_are_filled_in_and_other_braces_stay() {
        let told = told(r#""data": {"source": "records", "seed": 7}, "rows_per_stream": 30"#);
        for (word, filled) in [
            ("", ""),
            ("-n{rows}", "-n30"),
            ("{stream}/{streams}:{rows_per_batch}", "1/2:10"),
            (
                "{operation} {format} {columns} {values} {seed}",
                "get lines 4 random 7",
            ),
            ("{ print $1 } {row} {{stream}}", "{ print $1 } {row} {1}"),
        ] {
            assert_eq!(told.fill(&[word.into()]).unwrap(), [filled]);
        }
        let missing = told.fill(&["{data}".into()]).unwrap_err();
        assert!(missing.message.contains("--data FILE"), "{missing}");
        let found: Vec<_> = told.environment().collect();
        assert!(found.contains(&("VENTURI_ROWS_PER_BATCH".into(), "10")));
        assert!(found.contains(&("VENTURI_DATA".into(), "")));
    }
}
