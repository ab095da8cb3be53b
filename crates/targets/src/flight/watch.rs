//! How a reference server is asked for its side of a trial.

use futures::future::try_join_all;

use super::call::Link;
use super::reply::says;
use super::Flight;
use crate::reference::{Observation, Question, Reference};
use crate::Identity;
use venturi_base::codec::account::Account;
use venturi_base::error::{Error, Result};

impl Reference for Flight {
    type Link = Link;

    fn of_trial(&self) -> (&Observation, &Identity, &str) {
        (&self.observation, &self.identity, &self.spec.trial)
    }

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

    /// Of all servers that streams speak to, together.
    async fn ask_account(&self) -> Result<Option<Account>> {
        if !self.identity.reference {
            return Ok(None);
        }
        let accounts = self.spoken_to().map(|server| self.account_of(server));
        let accounts = try_join_all(accounts).await?;
        Ok(accounts.into_iter().reduce(Account::plus))
    }

    fn has_none(question: Question, error: &Error) -> bool {
        let has_none_of_it = question == Question::Samples && says(error, "NOT_FOUND");
        says(error, "UNIMPLEMENTED") || has_none_of_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flight::reply::Reply;
    use venturi_base::codec::hpack::Header;
    use venturi_base::http2::Event;

    /// As a server of gRPC says it.
    fn refusal(status: u32) -> Error {
        let header = |name: &str, value: &str| Header {
            name: name.into(),
            value: value.into(),
        };
        let event = Event::Headers {
            stream: 1,
            headers: vec![
                header(":status", "200"),
                header("content-type", "application/grpc"),
                header("grpc-status", &status.to_string()),
                header("grpc-message", "no UNIMPLEMENTED, no NOT_FOUND"),
            ],
            end: true,
        };
        Reply::default().event(event).unwrap_err()
    }

    #[test]
    fn a_reference_server_that_fails_is_not_one_without_an_answer() {
        let none = |question, status| {
            let error = refusal(status).context("comparing clocks");
            Flight::has_none(question, &error)
        };
        for question in [Question::Watch, Question::Samples, Question::Clock] {
            assert!(none(question, 12), "UNIMPLEMENTED");
            assert_eq!(
                none(question, 5),
                question == Question::Samples,
                "NOT_FOUND"
            );
            // UNKNOWN, INVALID_ARGUMENT, INTERNAL
            for failed in [2, 3, 13] {
                assert!(!none(question, failed), "{failed}");
            }
        }
    }
}
