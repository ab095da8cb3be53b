//! `usage`: the rows of the fast-update workload.

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampSecondArray};
use arrow_array::{UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::records::Random;
use crate::error::Result;
use crate::spec::Upsert;

/// See the module. Batch i depends on seed, i and rows_per_batch alone.
#[derive(Debug, Clone)]
pub struct Usage {
    working_set: u64,
    rows_per_batch: usize,
    seed: u64,
    loaded_unix_s: i64,
}

impl Usage {
    pub fn new(working_set: u64, rows_per_batch: usize, seed: u64, loaded_unix_s: i64) -> Self {
        Self {
            working_set,
            rows_per_batch,
            seed,
            loaded_unix_s,
        }
    }

    pub fn schema() -> SchemaRef {
        static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(Usage::columns);
        SCHEMA.clone()
    }

    fn columns() -> SchemaRef {
        let field = |name: &str, kind| Field::new(name, kind, false);
        let time = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        Arc::new(Schema::new(vec![
            field("customer_code", DataType::UInt32),
            field("timestamp_of_data", time),
            field("subcustomer_id", DataType::Utf8),
            field("geographic_region", DataType::UInt32),
            field("billing_flag", DataType::UInt32),
            field("ip_address", DataType::Utf8),
            field("bytes", DataType::UInt64),
            field("hits", DataType::UInt64),
        ]))
    }

    pub fn roles() -> Upsert {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        Upsert {
            key: names(&[
                "timestamp_of_data",
                "customer_code",
                "subcustomer_id",
                "geographic_region",
                "billing_flag",
                "ip_address",
            ]),
            add: names(&["bytes", "hits"]),
        }
    }

    /// The working set in whole batches.
    pub fn batches(&self) -> u64 {
        self.working_set.div_ceil(self.rows_per_batch as u64)
    }

    pub fn batch(&self, index: u64) -> Result<RecordBatch> {
        let n = self.rows_per_batch;
        let mut random = Random::seeded(self.seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut draw = |below: u64| (random.next() as u64) % below;
        let customers: Vec<u32> = (0..n).map(|_| draw(100_000) as u32).collect();
        let subs: Vec<String> = (0..n)
            .map(|_| {
                (0..12)
                    .map(|_| char::from(b'a' + draw(26) as u8))
                    .collect::<String>()
            })
            .collect();
        let regions: Vec<u32> = (0..n).map(|_| 1 + draw(10) as u32).collect();
        let flags: Vec<u32> = (0..n).map(|_| 1 + draw(5) as u32).collect();
        let ips: Vec<String> = (0..n)
            .map(|_| format!("10.0.{}.{}", draw(40), draw(250)))
            .collect();
        let bytes: Vec<u64> = (0..n).map(|_| 8192 + 1024 * draw(4000)).collect();
        let hits: Vec<u64> = (0..n).map(|_| 50 + 4 * draw(237)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(customers)),
            Arc::new(TimestampSecondArray::from(vec![self.loaded_unix_s; n]).with_timezone("UTC")),
            Arc::new(StringArray::from(subs)),
            Arc::new(UInt32Array::from(regions)),
            Arc::new(UInt32Array::from(flags)),
            Arc::new(StringArray::from(ips)),
            Arc::new(UInt64Array::from(bytes)),
            Arc::new(UInt64Array::from(hits)),
        ];
        Ok(RecordBatch::try_new(Self::schema(), columns)?)
    }
}
