//! A call's response: what its headers say of its status (gRPC over HTTP/2, "Responses").

use venturi_base::codec::frame::code;
use venturi_base::codec::hpack::Header;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http2::Event;

const PYTHON: &str = ". Detail: Python exception: Traceback";

/// Follows one call's response to its status.
#[derive(Debug, Default)]
pub struct Reply {
    /// Its headers have come.
    pub begun: bool,
    status: Option<std::result::Result<(), Error>>,
}

impl Reply {
    /// Takes any event but a message. True: the call is over, and well.
    pub fn event(&mut self, event: Event) -> Result<bool> {
        match event {
            Event::Headers { headers, end, .. } => {
                if !self.begun {
                    self.begun = true;
                    check_http(&headers)?;
                }
                if let Some(status) = grpc_status(&headers) {
                    self.status = Some(status);
                }
                if end {
                    return self.over();
                }
                Ok(false)
            }
            Event::End { .. } => self.over(),
            Event::Reset { code, farewell, .. } => match (self.status.take(), farewell) {
                // gRPC servers reset a stream whose request they did not read to its end.
                (Some(status), _) => status.map(|()| true),
                (None, Some(farewell)) => Err(Error::new(Kind::Lost, farewell)),
                (None, None) => {
                    let advice = match code {
                        code::REFUSED_STREAM => "; it limits the calls on a connection (gRPC: MAX_CONCURRENT_STREAMS): raise the limit",
                        _ => "",
                    };
                    let line = format!("the server reset the stream: {}{advice}", code::name(code));
                    Err(Error::new(Kind::Server, line))
                }
            },
            Event::Message { .. } => Ok(false),
        }
    }

    fn over(&mut self) -> Result<bool> {
        match self.status.take() {
            Some(status) => status.map(|()| true),
            None => Err(Error::protocol(
                "the server ended the stream without a gRPC status",
            )),
        }
    }
}

fn find<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|header| header.name == name)
        .map(|header| header.value.as_str())
}

fn check_http(headers: &[Header]) -> Result<()> {
    let status = find(headers, ":status").unwrap_or("none");
    let content = find(headers, "content-type").unwrap_or("none");
    if status == "200" && content.starts_with("application/grpc") {
        return Ok(());
    }
    // Some servers answer a refused call with a bare grpc-status.
    if find(headers, "grpc-status").is_some() {
        return Ok(());
    }
    Err(Error::protocol(format!(
        "not a gRPC server: HTTP status {status}, content type {content}"
    )))
}

/// The status in trailers (gRPC over HTTP/2, "Responses").
fn grpc_status(headers: &[Header]) -> Option<std::result::Result<(), Error>> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let number: usize = find(headers, "grpc-status")?.parse().unwrap_or(2);
    if number == 0 {
        return Some(Ok(()));
    }
    let name = NAMES.get(number).unwrap_or(&"UNKNOWN");
    let message = percent_decode(find(headers, "grpc-message").unwrap_or(""));
    // pyarrow's servers send the lines of their code along.
    let message = message.split(PYTHON).next().unwrap_or_default();
    let kind = match number {
        7 | 16 => Kind::Auth,
        _ => Kind::Server,
    };
    let advice = match number {
        16 => "; give the token's environment variable as token_env, or user and password_env",
        _ => "",
    };
    let separator = if message.is_empty() { "" } else { ": " };
    let line = format!("the server answered {name}{separator}{message}{advice}");
    Some(Err(Error::new(kind, line).with_code(name)))
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether the server answered with the status of this name.
pub fn says(error: &Error, name: &str) -> bool {
    error.kind == Kind::Server && error.code.as_deref() == Some(name)
}

/// True where the server does not know the method or action.
pub fn is_unknown(error: &Error) -> bool {
    [
        "UNIMPLEMENTED",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "UNKNOWN",
        "INTERNAL",
    ]
    .iter()
    .any(|name| says(error, name))
}
