//! The few queries that the built-in engine understands.
//!
//! `SELECT * | column, ... FROM table | function(key = value, ...) [LIMIT n]`

use venturi_base::error::{Error, Result};

/// What stands in a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// `None`: all columns.
    pub columns: Option<Vec<String>>,
    pub from: From,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    Table(String),
    Function {
        name: String,
        arguments: Vec<Argument>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub key: String,
    pub value: String,
    /// Where it stands, for messages.
    pub at: usize,
}

impl Argument {
    pub fn number(&self) -> Result<u64> {
        self.value.parse().map_err(|_| {
            Error::usage(format!(
                "the query, at character {}: {} must be a whole number, not {:?}",
                self.at + 1,
                self.key,
                self.value
            ))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    /// "A name", to be taken as it stands.
    Quoted,
    Text,
    Number,
    Sign,
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    kind: Kind,
    text: String,
    at: usize,
}

pub fn parse(query: &str) -> Result<Statement> {
    let tokens = tokens(query)?;
    let mut parser = Parser { tokens, next: 0 };
    parser.keyword("SELECT")?;
    let columns = match parser.takes("*") {
        true => None,
        false => {
            let mut columns = vec![parser.name("a column or *")?];
            while parser.takes(",") {
                columns.push(parser.name("a column")?);
            }
            Some(columns)
        }
    };
    parser.keyword("FROM")?;
    let name = parser.name("a table or a function")?;
    let from = match parser.takes("(") {
        false => From::Table(name),
        true => From::Function {
            name: name.to_lowercase(),
            arguments: parser.arguments()?,
        },
    };
    let limit = match parser.is_keyword("LIMIT") {
        false => None,
        true => {
            parser.next += 1;
            let token = parser.take();
            let number = token.text.parse().ok();
            Some(number.ok_or_else(|| expected("a number of rows", &token))?)
        }
    };
    let _ = parser.takes(";");
    let rest = parser.take();
    match rest.kind {
        Kind::End => Ok(Statement {
            columns,
            from,
            limit,
        }),
        _ => Err(expected(
            if limit.is_none() {
                "LIMIT or the end"
            } else {
                "the end"
            },
            &rest,
        )),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    /// There is always one: the end stays.
    fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = self.peek().kind == Kind::Sign && self.peek().text == sign;
        self.next += usize::from(found);
        found
    }

    fn is_keyword(&self, word: &str) -> bool {
        let token = self.peek();
        token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word)
    }

    fn keyword(&mut self, word: &str) -> Result<()> {
        if !self.is_keyword(word) {
            return Err(expected(word, self.peek()));
        }
        self.next += 1;
        Ok(())
    }

    fn name(&mut self, what: &str) -> Result<String> {
        let token = self.take();
        match token.kind {
            Kind::Word | Kind::Quoted => Ok(token.text),
            _ => Err(expected(what, &token)),
        }
    }

    /// Behind the opening bracket.
    fn arguments(&mut self) -> Result<Vec<Argument>> {
        let mut arguments: Vec<Argument> = Vec::new();
        if self.takes(")") {
            return Ok(arguments);
        }
        loop {
            let at = self.peek().at;
            let key = self.name("the name of an argument, as in rows = 1000")?;
            let key = key.to_lowercase();
            if arguments.iter().any(|known| known.key == key) {
                return Err(Error::usage(format!(
                    "the query, at character {}: {key} is given twice",
                    at + 1
                )));
            }
            if !self.takes("=") {
                return Err(expected("=", self.peek()));
            }
            let value = self.take();
            if !matches!(value.kind, Kind::Word | Kind::Text | Kind::Number) {
                return Err(expected("a value", &value));
            }
            arguments.push(Argument {
                key,
                value: value.text,
                at: value.at,
            });
            if self.takes(")") {
                return Ok(arguments);
            }
            if !self.takes(",") {
                return Err(expected(", or )", self.peek()));
            }
        }
    }
}

fn expected(what: &str, found: &Token) -> Error {
    let text: String = found.text.chars().take(40).collect();
    let found_text = match found.kind {
        Kind::End => "the end".to_owned(),
        _ => format!("{text:?}"),
    };
    Error::usage(format!(
        "the query, at character {}: expected {what}, found {found_text}; the built-in engine knows SELECT * | columns FROM table | records(rows = n, ...) | state_rows(rows = n, ...) [LIMIT n]",
        found.at + 1
    ))
}

fn tokens(query: &str) -> Result<Vec<Token>> {
    let characters: Vec<char> = query.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    let push =
        |tokens: &mut Vec<Token>, kind, text: String, at| tokens.push(Token { kind, text, at });
    while let Some(&first) = characters.get(at) {
        let begin = at;
        if first.is_whitespace() {
            at += 1;
        } else if first == '"' || first == '\'' || first == '`' {
            let mut text = String::new();
            loop {
                at += 1;
                match (characters.get(at), characters.get(at + 1)) {
                    // Twice: it stands for itself.
                    (Some(&here), Some(&next)) if here == first && next == first => {
                        text.push(first);
                        at += 1;
                    }
                    (Some(&here), _) if here == first => break,
                    (Some(&here), _) => text.push(here),
                    (None, _) => {
                        return Err(Error::usage(format!(
                            "the query, at character {}: the {first} has no end",
                            begin + 1
                        )))
                    }
                }
            }
            at += 1;
            let kind = if first == '\'' {
                Kind::Text
            } else {
                Kind::Quoted
            };
            push(&mut tokens, kind, text, begin);
        } else if first.is_ascii_digit() {
            while characters
                .get(at)
                .is_some_and(|c| c.is_ascii_digit() || *c == '_')
            {
                at += 1;
            }
            let text = characters[begin..at]
                .iter()
                .filter(|c| **c != '_')
                .collect();
            push(&mut tokens, Kind::Number, text, begin);
        } else if first.is_alphabetic() || first == '_' {
            let inside = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
            while characters.get(at).is_some_and(inside) {
                at += 1;
            }
            push(
                &mut tokens,
                Kind::Word,
                characters[begin..at].iter().collect(),
                begin,
            );
        } else {
            at += 1;
            push(&mut tokens, Kind::Sign, first.to_string(), begin);
        }
    }
    push(&mut tokens, Kind::End, String::new(), characters.len());
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_it_understands() {
        let all = parse("select * from records(rows = 1_000, values = 'random') limit 7;").unwrap();
        assert_eq!((all.columns, all.limit), (None, Some(7)));
        let From::Function { name, arguments } = all.from else {
            panic!()
        };
        assert_eq!(name, "records");
        assert_eq!(arguments[0].number().unwrap(), 1000);
        assert_eq!(arguments[1].value, "random");
        let some = parse("SELECT \"from\", b FROM \"a table\"").unwrap();
        assert_eq!(some.columns.unwrap(), ["from", "b"]);
        assert_eq!(some.from, From::Table("a table".into()));
        assert_eq!(
            parse("SELECT * FROM records()").unwrap().from,
            From::Function {
                name: "records".into(),
                arguments: vec![]
            }
        );
    }

    #[test]
    fn what_it_does_not_understand_it_points_at() {
        let said = |query| parse(query).unwrap_err().message;
        assert!(said("").contains("character 1: expected SELECT, found the end"));
        assert!(said("INSERT INTO t").contains("found \"INSERT\""));
        assert!(said("SELECT * FROM t WHERE a > 1").contains("character 17: expected LIMIT"));
        assert!(said("SELECT count(*) FROM t").contains("character 13: expected FROM"));
        assert!(said("SELECT * FROM records(rows 5)").contains("expected ="));
        assert!(said("SELECT * FROM records(rows = 5, rows = 6)").contains("given twice"));
        assert!(said("SELECT * FROM t LIMIT x").contains("number of rows"));
        assert!(said("SELECT \"a").contains("has no end"));
        assert!(said("SELECT * FROM t LIMIT 99999999999999999999").contains("number of rows"));
    }

    proptest! {
        #[test]
        fn any_text_is_understood_or_not(text in "\\PC{0,60}") {
            let _ = parse(&text);
            let _ = parse(&format!("SELECT * FROM {text}"));
        }
    }
}
