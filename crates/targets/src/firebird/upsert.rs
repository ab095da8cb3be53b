//! Upserts into Firebird: a MERGE of one row, prepared once; a batch is sent as one piece and is one transaction.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::connect::{Link, Op, WRITES};
use super::dialect::FIREBIRD;
use super::errors::of_batch;
use super::types::Message;
use super::Firebird;
use crate::database::literal;
use crate::sql::Widths;
use crate::upsert::{Builder, Executing, Executor, Prepared, Upserts, Work};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::Result;
use venturi_base::meter::clock::Stage;
use venturi_base::spec::TrialSpec;

/// A batch: the values of its rows, and where each row's end.
#[derive(Debug)]
pub struct Values {
    all: Vec<u8>,
    ends: Vec<usize>,
}

pub struct Statements {
    message: Message,
    merge: String,
}

impl Builder for Statements {
    type Statement = Values;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Values> {
        let (all, ends) = self.message.encode(table, rows)?;
        Ok(Values { all, ends })
    }

    fn size(statement: &Values) -> usize {
        statement.all.len() + 8 * statement.ends.len()
    }
}

/// The MERGE of one row. A null adds nothing.
fn merge(table: &Table, widths: &Widths) -> Result<String> {
    let column = |at: usize| FIREBIRD.quoted(table.column(at));
    let all = 0..table.schema.fields().len();
    let values = all.clone().map(|at| {
        let kind = FIREBIRD.column_type(table, at, widths)?;
        Ok(format!("CAST(? AS {kind}) AS {}", column(at)))
    });
    let values = values.collect::<Result<Vec<_>>>()?.join(", ");
    let added = table.add.iter().map(|&at| {
        let name = column(at);
        match table.schema.field(at).is_nullable() {
            true => format!("{name} = COALESCE(t.{name}, 0) + COALESCE(s.{name}, 0)"),
            false => format!("{name} = t.{name} + s.{name}"),
        }
    });
    let set = table
        .set()
        .into_iter()
        .map(|at| format!("{0} = s.{0}", column(at)));
    let updates: Vec<_> = added.chain(set).collect();
    let matched = match updates.is_empty() {
        true => String::new(),
        false => format!(" WHEN MATCHED THEN UPDATE SET {}", updates.join(", ")),
    };
    let joined =
        |items: &mut dyn Iterator<Item = String>, by: &str| items.collect::<Vec<_>>().join(by);
    Ok(format!(
        "MERGE INTO {} AS t USING (SELECT {values} FROM RDB$DATABASE) AS s ON {}{matched} WHEN NOT MATCHED THEN INSERT ({}) VALUES ({})",
        FIREBIRD.quoted(&table.name),
        joined(&mut table.key.iter().map(|&at| format!("t.{0} = s.{0}", column(at))), " AND "),
        joined(&mut all.clone().map(column), ", "),
        joined(&mut all.map(|at| format!("s.{}", column(at))), ", "),
    ))
}

impl Upserts for Firebird {
    type Builder = Statements;
    type Executor = Call;

    // Row by row a key is taken as often as it comes.
    const MERGES: bool = false;

    async fn builder(&self, _: &mut Link, table: &Table, batches: &Batches) -> Result<Statements> {
        FIREBIRD.check(table)?;
        Ok(Statements {
            message: Message::of_table(table)?,
            merge: merge(table, &Widths::of(table, batches)?)?,
        })
    }

    /// Pages that the whole database takes: no table tells its own.
    fn stored_bytes(&self, _: &str) -> (Vec<String>, String) {
        let select = "SELECT MON$PAGES * MON$PAGE_SIZE FROM MON$DATABASE";
        (Vec::new(), select.into())
    }

    /// A collation that takes letters for one, as UNICODE_CI, of a column of the key.
    fn meet(table: &str) -> String {
        let table = literal(table);
        format!(
            "SELECT TRIM(s.RDB$FIELD_NAME), 'the collation ' || TRIM(c.RDB$COLLATION_NAME) FROM RDB$INDICES i \
             JOIN RDB$INDEX_SEGMENTS s ON s.RDB$INDEX_NAME = i.RDB$INDEX_NAME \
             JOIN RDB$RELATION_FIELDS r ON r.RDB$RELATION_NAME = i.RDB$RELATION_NAME AND r.RDB$FIELD_NAME = s.RDB$FIELD_NAME \
             JOIN RDB$FIELDS f ON f.RDB$FIELD_NAME = r.RDB$FIELD_SOURCE \
             JOIN RDB$COLLATIONS c ON c.RDB$CHARACTER_SET_ID = f.RDB$CHARACTER_SET_ID \
             AND c.RDB$COLLATION_ID = COALESCE(r.RDB$COLLATION_ID, f.RDB$COLLATION_ID) \
             WHERE i.RDB$RELATION_NAME = {table} AND i.RDB$UNIQUE_FLAG = 1 AND BIN_AND(c.RDB$COLLATION_ATTRIBUTES, 6) > 0"
        )
    }

    async fn executors(
        &self,
        _: &TrialSpec,
        mut link: Link,
        work: &Work<Statements>,
    ) -> Result<Vec<Call>> {
        let statements = work.builder();
        let prepared = link.prepare(&statements.merge, WRITES).await;
        Ok(vec![Call {
            handle: self.explained(prepared)?.handle,
            blr: statements.message.blr.clone().into(),
            place: self.place.address().into(),
            link,
        }])
    }
}

/// A connection with its prepared statement.
pub struct Call {
    link: Link,
    handle: u32,
    blr: Arc<[u8]>,
    place: Arc<str>,
}

impl Call {
    /// All rows or none.
    async fn transact(&mut self, values: &Values) -> Result<()> {
        self.link.begin_transaction(WRITES).await?;
        let (all, ends) = (&values.all, &values.ends);
        let applied = self
            .link
            .execute_all(self.handle, &self.blr, all, ends)
            .await;
        match applied {
            Ok(()) => self.link.renew_transaction(Op::Commit, WRITES).await,
            Err(error) if error.code.is_some() => {
                self.link.renew_transaction(Op::Rollback, WRITES).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }
}

impl Executor for Call {
    type Statement = Values;

    const WORK: Stage = Stage::Send;

    fn execute(mut self, call: Arc<Prepared<Values>>) -> Executing<Self> {
        Box::pin(async move {
            let done = self.transact(&call.statement).await;
            let done = done.map_err(|error| of_batch(error.context(&self.place), call.rows));
            (self, done)
        })
    }
}
