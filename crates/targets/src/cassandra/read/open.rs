//! Connections to nodes, and on them what a stream asks, prepared.

use std::net::SocketAddr;
use std::sync::Arc;

use super::super::dial::{exchange, Access};
use super::super::errors::{self, Written};
use super::super::frame::{opcode, Answer, Request};
use super::super::schema::quoted;
use super::pages::{Asking, Link, Pages};
use super::{Plan, Readable};
use crate::read::{Checks, Partition};
use crate::Session;
use venturi_base::codec::cql::Prepared;
use venturi_base::data::column::Columns;
use venturi_base::error::{Error, Result};
use venturi_base::net::wire::Wire;

impl Readable {
    /// A connection that has run the user's own statements.
    async fn connect(&self, access: &Access, node: SocketAddr) -> Result<Wire> {
        let place = self.place.address();
        let mut wire = access.open(node, &place).await?;
        let own = format!("USE {}", quoted(&self.place.space));
        for statement in [&own].into_iter().chain(&self.options.common.init) {
            let request = Request::query(statement, self.options.consistency());
            let answer = self.exchange(&mut wire, access, request).await;
            answer.map_err(|error| error.context(format_args!("{statement:?}")))?;
        }
        Ok(wire)
    }

    /// The same to the first node that can be reached, and which that is.
    pub(super) async fn any(&self, access: &Access, nodes: &[SocketAddr]) -> Result<(Wire, usize)> {
        let mut first = None;
        for (at, node) in nodes.iter().enumerate() {
            match self.connect(access, *node).await {
                Ok(wire) => return Ok((wire, at)),
                Err(error) => first.get_or_insert(error),
            };
        }
        Err(first.unwrap_or_else(|| Error::protocol("the cluster has no nodes")))
    }

    async fn exchange(&self, wire: &mut Wire, access: &Access, request: Request) -> Result<Answer> {
        let request = request.compressed(access.compression)?;
        let answer = exchange(wire, &request, access.compression).await?;
        match &answer.refusal {
            None => Ok(answer),
            Some(refusal) => {
                let (place, written) = (self.place.address(), Written::default());
                Err(errors::of_server(
                    &place,
                    &refusal.error,
                    &refusal.reason,
                    written,
                ))
            }
        }
    }

    pub(super) async fn prepare(
        &self,
        wire: &mut Wire,
        access: &Access,
        text: &str,
    ) -> Result<Prepared> {
        let request = Request::prepare(text);
        let answer = self.exchange(wire, access, request).await?;
        let prepared = match answer.opcode {
            opcode::RESULT => Prepared::parse(&answer.body)?,
            _ => None,
        };
        let strange = || {
            Error::protocol(format!(
                "{}: a statement was not prepared",
                self.place.address()
            ))
        };
        prepared.ok_or_else(strange)
    }

    pub(super) async fn open_stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let plan = self.plan()?;
        let checks = Checks {
            summed: (!plan.summed.columns.is_empty()).then(|| plan.summed.clone()),
            digest: plan.digest,
        };
        let place: Arc<str> = self.place.address().into();
        let pieces = plan.pieces.get(stream).cloned().unwrap_or_default();
        let mut links: Vec<Option<Link>> = plan.nodes.iter().map(|_| None).collect();
        for at in pieces.iter().filter_map(|piece| piece.node) {
            if links[at].is_none() {
                // Its pieces are then read by way of another node.
                if let Ok(wire) = self.connect(&plan.access, plan.nodes[at]).await {
                    links[at] = Some(self.link(plan, wire).await?);
                }
            }
        }
        if links.iter().all(Option::is_none) {
            // Where nodes are all the same, streams take them in turn.
            let turn = stream % plan.nodes.len().max(1);
            let nodes = [&plan.nodes[turn..], &plan.nodes[..turn]].concat();
            let (wire, found) = self.any(&plan.access, &nodes).await?;
            links[(turn + found) % plan.nodes.len()] = Some(self.link(plan, wire).await?);
        }
        let rows_per_batch = self.spec.rows_per_batch;
        let limit = self.options.reading.max_block_bytes;
        let asking = Asking {
            text: plan.text.clone(),
            consistency: self.options.consistency(),
            compression: plan.access.compression,
            page_size: match self.options.page_size {
                Some(rows) => rows,
                None => i32::try_from(rows_per_batch).unwrap_or(i32::MAX),
            },
            limit,
        };
        let columns = Columns::new(&plan.schema, limit)?;
        let known = plan.columns.clone();
        let rows = Pages::new(
            links,
            asking,
            known,
            columns,
            rows_per_batch,
            pieces,
            place.clone(),
        );
        Ok(Box::new(Partition::new(Some(rows), checks, place)))
    }

    /// Of a connection that has prepared what its stream asks.
    async fn link(&self, plan: &Plan, mut wire: Wire) -> Result<Link> {
        let prepared = self.prepare(&mut wire, &plan.access, &plan.text).await?;
        self.keep(&wire);
        Ok(Link::new(wire, prepared.id))
    }
}
