//! How a reference server is asked for its samples.

use super::channel::Channel;
use super::Charrow;
use crate::reference::{Asks, Question};
use venturi_base::error::{Error, Kind, Result};

impl Asks for Charrow {
    type Link = Channel;

    async fn link(&self, first: Question) -> Result<Channel> {
        self.within(first.what(), self.asking()).await
    }

    async fn ask(
        &self,
        channel: &mut Channel,
        question: Question,
        payload: &str,
    ) -> Result<Vec<u8>> {
        let name = question.name();
        if !self.asks.contains(name) {
            let line = format!("it does not answer the question {name}");
            return Err(Error::new(Kind::Server, line));
        }
        let asking = super::plan::ask(channel, name, payload);
        self.within(question.what(), asking).await
    }

    /// A server may refuse any question.
    fn has_none(_: Question, error: &Error) -> bool {
        super::plan::is_refusal(error)
    }
}
