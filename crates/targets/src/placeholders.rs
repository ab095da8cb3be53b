//! Placeholders in what a user writes for every stream: a program's command, a resource's path.

use venturi_base::error::{Error, Result};
use venturi_base::spec::{Data, Operation, TrialSpec, Values};

/// What one stream is told, by the names of placeholders; `None`: this trial has no such thing.
pub struct Placeholders(Vec<(&'static str, Option<String>)>);

impl Placeholders {
    pub fn of(spec: &TrialSpec, format: &str, stream: usize) -> Self {
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
            ("format", Some(format.into())),
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
        let filled = command.iter().map(|word| self.fill_text(word));
        let said = |error: Error| error.context("exec://: the command");
        filled.collect::<Result<_>>().map_err(said)
    }

    /// A text with its placeholders filled in.
    pub fn fill_text(&self, word: &str) -> Result<String> {
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
                        "{{{name}}} stands there, and this trial has none; {fix}"
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

    fn placeholders(more: &str) -> Placeholders {
        let spec = TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "exec://", "operation": "get", "streams": 2, "threads": 1,
                "rows_per_batch": 10, {more}}}"#
        ));
        Placeholders::of(&spec.unwrap(), "lines", 1)
    }

    #[test]
    fn placeholders_are_filled_in_and_other_braces_stay() {
        let told =
            placeholders(r#""data": {"source": "records", "seed": 7}, "rows_per_stream": 30"#);
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
