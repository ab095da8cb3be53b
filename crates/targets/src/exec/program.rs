//! A program that runs: its start, what it says, its end. Whatever ends a trial, its processes end with it.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use parking_lot::{Condvar, Mutex};

use venturi_base::error::{Error, Kind, Result};
use venturi_base::os::pipe::widen;
use venturi_base::secrets::{masked, masked_end};
use venturi_base::spec::Operation;

/// How long a program that was asked to end may take.
const GRACE: Duration = Duration::from_secs(1);
/// How long the last words of a program that has ended are waited for: what it has left running may hold
/// them open.
const WORDS: Duration = Duration::from_millis(300);
/// What is kept of a program's words.
const KEPT: usize = 4 << 10;
/// Of these, the lines and the bytes that an error repeats.
const MOST_LINES: usize = 3;
const MOST_BYTES: usize = 500;

/// How a program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Status(i32),
    Signal(i32),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "ended with status {status}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

/// Tells when the program has ended.
#[derive(Debug, Default)]
struct Ending {
    ended: Mutex<Option<Ended>>,
    changed: Condvar,
    waker: AtomicWaker,
}

/// The end of what somebody says.
#[derive(Debug, Default)]
struct Words {
    last: Mutex<(VecDeque<u8>, bool)>,
    over: Condvar,
}

impl Words {
    /// Reads all, so that nobody who writes is held up.
    fn keep(&self, mut from: impl Read) {
        let mut buffer = [0; KEPT];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => {
                    let (last, _) = &mut *self.last.lock();
                    last.extend(&buffer[..bytes]);
                    let over = last.len().saturating_sub(KEPT);
                    last.drain(..over);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.last.lock().1 = true;
        self.over.notify_all();
    }

    /// Once all is said, or a moment later.
    fn text(&self) -> String {
        let mut last = self.last.lock();
        let over = |last: &mut (VecDeque<u8>, bool)| !last.1;
        self.over.wait_while_for(&mut last, over, WORDS);
        let whole = last.0.len() < KEPT;
        let text = String::from_utf8_lossy(last.0.make_contiguous());
        match whole {
            true => masked(text.into_owned()),
            false => masked_end(&text),
        }
    }
}

#[derive(Debug)]
pub struct Program {
    /// As errors name it.
    name: String,
    /// `None`: it was waited for.
    child: Mutex<Option<Child>>,
    pid: u32,
    ending: Arc<Ending>,
    errors: Arc<Words>,
    /// Of a put: its standard output.
    answers: Option<Arc<Words>>,
}

impl Program {
    /// Starts it; with this end of the pipe that its rows pass.
    pub fn start<'a>(
        command: &[String],
        environment: impl Iterator<Item = (String, &'a str)>,
        operation: Operation,
    ) -> Result<(Self, OwnedFd)> {
        let (first, arguments) = command.split_first().expect("a command was checked");
        let name = shown(command);
        let get = operation == Operation::Get;
        let mut starting = Command::new(first);
        starting
            .args(arguments)
            .envs(environment)
            .stdin(if get { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Signals for it are for what it starts as well, and those of a terminal are for us.
            .process_group(0);
        ends_with_us(&mut starting);
        let mut child = starting.spawn().map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => ": is it installed, and in PATH?",
                io::ErrorKind::PermissionDenied => ": is it executable?",
                _ => "",
            };
            let text = format!("exec://: {name} cannot be started: {error}{hint}");
            // Of this command alone: others may well start.
            Error::new(Kind::Usage, text)
        })?;
        let pid = child.id();
        let rows: Option<OwnedFd> = match get {
            true => child.stdout.take().map(Into::into),
            false => child.stdin.take().map(Into::into),
        };
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let program = Self {
            name,
            child: Mutex::new(Some(child)),
            pid,
            ending: Arc::default(),
            errors: Arc::default(),
            answers: output.is_some().then(Arc::default),
        };
        let missing = || Error::new(Kind::Internal, "exec: a program without its pipes");
        let (rows, errors) = (rows.ok_or_else(missing)?, errors.ok_or_else(missing)?);
        widen(&rows);
        let ending = program.ending.clone();
        thread("exec-wait", move || ending.wait_for(pid))?;
        let words = program.errors.clone();
        thread("exec-errors", move || words.keep(errors))?;
        if let (Some(words), Some(output)) = (program.answers.clone(), output) {
            thread("exec-output", move || words.keep(output))?;
        }
        Ok((program, rows))
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn ended(&self) -> Option<Ended> {
        *self.ending.ended.lock()
    }

    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.ending.waker.register(cx.waker());
        self.ended().map_or(Poll::Pending, Poll::Ready)
    }

    /// Blocks, for so long at most.
    pub fn wait(&self, until: Instant) -> Option<Ended> {
        let mut ended = self.ending.ended.lock();
        let running = |ended: &mut Option<Ended>| ended.is_none();
        let left = until.saturating_duration_since(Instant::now());
        self.ending
            .changed
            .wait_while_for(&mut ended, running, left);
        *ended
    }

    /// What is wrong with how it has ended, if anything.
    pub fn verdict(&self, ended: Ended) -> Result<()> {
        match ended {
            Ended::Status(0) => Ok(()),
            Ended::Status(_) => Err(self.error(Kind::Server, &ended.to_string())),
            Ended::Signal(_) => Err(self.error(Kind::Lost, &ended.to_string())),
        }
    }

    /// An error about it, with its last words.
    pub fn error(&self, kind: Kind, what: &str) -> Error {
        let said = last_lines(&self.errors.text());
        let said = if said.is_empty() {
            said
        } else {
            format!(": {said}")
        };
        Error::new(kind, format!("exec://: {} {what}{said}", self.name))
    }

    /// Where its stream is wrong: how it has ended says more, if it has ended badly.
    pub fn wrong(&self, kind: Kind, what: &str) -> Error {
        match self
            .wait(Instant::now() + WORDS)
            .map(|ended| self.verdict(ended))
        {
            Some(Err(error)) => error,
            _ => self.error(kind, what),
        }
    }

    /// What it says that it has moved: the last line of what its rows do not pass.
    pub fn counted(&self) -> Option<Counted> {
        let words = self.answers.as_ref().unwrap_or(&self.errors);
        Counted::of(&words.text())
    }

    /// Asks it, and all that it has started, to end.
    pub fn terminate(&self) {
        if let Some(child) = &*self.child.lock() {
            signal(child, libc::SIGTERM);
        }
    }

    /// Kills what is left of it and of what it has started, and waits for it. Once more is harmless.
    fn end(&self) {
        if let Some(mut child) = self.child.lock().take() {
            signal(&child, libc::SIGKILL);
            self.wait(Instant::now() + GRACE);
            let _ = child.wait();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// To a group that was made for this process; its number stays its own until somebody has waited for it.
fn signal(child: &Child, signal: i32) {
    if let Ok(group) = i32::try_from(child.id()) {
        // SAFETY: kill only takes numbers; the child is not waited for yet.
        unsafe { libc::kill(-group, signal) };
    }
}

/// All programs of a trial; none of them outlives it.
#[derive(Debug, Default)]
pub struct Programs(pub Vec<Arc<Program>>);

impl Programs {
    /// Asks all of them to end, gives them a moment, and kills what is left.
    pub async fn end(&self) {
        self.0.iter().for_each(|program| program.terminate());
        let until = Instant::now() + GRACE;
        let left = || self.0.iter().any(|program| program.ended().is_none());
        while left() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.0.iter().for_each(|program| program.end());
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.0.iter().for_each(|program| program.terminate());
        let until = Instant::now() + GRACE;
        for program in &self.0 {
            program.wait(until);
            program.end();
        }
    }
}

/// What a program says that it has moved: `rows=1000`, or `rows=1000 checksum=00ff00ff00ff00ff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub rows: u64,
    pub checksum: Option<u64>,
}

impl Counted {
    fn of(text: &str) -> Option<Self> {
        let line = text.trim_end().lines().last()?;
        let field = |name: &str| {
            let mut words = line.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let checksum = field("checksum").and_then(|text| u64::from_str_radix(text, 16).ok());
        Some(Self {
            rows: field("rows")?.parse().ok()?,
            checksum,
        })
    }
}

impl Ending {
    /// Leaves the process as it is, so that what it has used can still be read.
    fn wait_for(&self, pid: u32) {
        // SAFETY: waitid fills the structure it is given; all zeros is a valid one.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT;
            loop {
                if libc::waitid(libc::P_PID, pid, &mut info, flags) == 0 {
                    break match info.si_code {
                        libc::CLD_EXITED => Ended::Status(info.si_status()),
                        _ => Ended::Signal(info.si_status()),
                    };
                }
                if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                    // Somebody has waited for it, which is done after a SIGKILL only.
                    break Ended::Signal(libc::SIGKILL);
                }
            }
        };
        *self.ended.lock() = Some(ended);
        self.changed.notify_all();
        self.waker.wake();
    }
}

/// A killed Venturi cannot end its programs.
#[cfg(target_os = "linux")]
fn ends_with_us(starting: &mut Command) {
    let us = std::process::id();
    let ask = move || {
        // SAFETY: both only take and give numbers, and may be called between fork and exec.
        let asked = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: as above.
        match asked == 0 && u32::try_from(unsafe { libc::getppid() }) == Ok(us) {
            true => Ok(()),
            false => Err(io::ErrorKind::Interrupted.into()),
        }
    };
    // SAFETY: what is called allocates nothing and takes no lock.
    unsafe { starting.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn ends_with_us(_: &mut Command) {}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let builder = std::thread::Builder::new().name(name.into());
    builder
        .spawn(work)
        .map(drop)
        .map_err(|error| Error::new(Kind::Io, format!("exec://: starting a thread: {error}")))
}

/// A command as errors name it.
fn shown(command: &[String]) -> String {
    let whole = masked(command.join(" "));
    let mut short: String = whole.chars().take(60).collect();
    if short.len() < whole.len() {
        short += "...";
    }
    format!("`{short}`")
}

/// The last lines that say something, without what would disturb a terminal.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(MOST_LINES)..].join(" | ");
    let plain: Vec<char> = last
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    plain[plain.len().saturating_sub(MOST_BYTES)..]
        .iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_from_the_last_line() {
        let rows = |rows, checksum| Some(Counted { rows, checksum });
        for (text, found) in [
            ("", None),
            ("100", None),
            ("rows=100\n", rows(100, None)),
            ("wrote\n took rows=7 checksum=ff \n\n", rows(7, Some(255))),
            ("rows=7\nbye", None),
            ("rows=-7", None),
        ] {
            assert_eq!(Counted::of(text), found, "{text:?}");
        }
    }

    #[test]
    fn words_are_few() {
        assert_eq!(last_lines("a\nb\n\nc\x1b[1m\nd\n"), "b | c [1m | d");
        assert_eq!(last_lines(&"x".repeat(9999)).len(), MOST_BYTES);
        let words = Words::default();
        words.keep(&[b'y'; 3 * KEPT][..]);
        assert_eq!(words.text().len(), KEPT);
        let path = venturi_base::secrets::fill("{env:PATH}").unwrap();
        words.keep((path + &"y".repeat(KEPT - 5)).as_bytes());
        assert!(words.text().starts_with("***yyy"));
        assert_eq!(shown(&["a".into(), "b c".into()]), "`a b c`");
        assert!(shown(&["\u{e9}".repeat(99)]).ends_with("...`"));
    }
}
