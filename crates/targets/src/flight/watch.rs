//! How a reference server is asked for its samples.

use super::call::Link;
use super::reply::is_unknown;
use super::Flight;
use crate::reference::{Asks, Question};
use venturi_base::error::{Error, Result};

impl Asks for Flight {
    type Link = Link;

    async fn link(&self, _: Question) -> Result<Link> {
        Flight::link(self, &self.servers[self.watched]).await
    }

    async fn ask(&self, link: &mut Link, question: Question, payload: &str) -> Result<Vec<u8>> {
        let name = format!("venturi.{}", question.name());
        let asking = async {
            match question {
                Question::Samples => {
                    let pieces = link.samples(&name, payload.as_bytes()).await?;
                    Ok(pieces.concat())
                }
                _ => link.action(&name, payload.as_bytes()).await,
            }
        };
        self.within(&self.servers[self.watched].address, question.what(), asking)
            .await
    }

    fn has_none(error: &Error) -> bool {
        is_unknown(error)
    }
}
