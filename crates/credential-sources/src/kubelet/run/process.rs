//! One plugin while it runs.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use zeroize::Zeroizing;

use super::Failure;

/// How long the end of a killed process is waited for: it takes longer only inside of the kernel,
/// where nothing helps.
const KILL_WITHIN: Duration = Duration::from_secs(2);

/// A plugin that was started and has not been waited for.
pub(super) struct Running<'a> {
    child: &'a mut Child,
    /// Readable once it has ended.
    process: OwnedFd,
    stdout: ChildStdout,
}

impl<'a> Running<'a> {
    pub(super) fn of(child: &'a mut Child) -> Result<Self, Failure> {
        let opened = child.stdout.take().ok_or_else(Failure::lost).and_then(|stdout| {
            match pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
                // It has ended, cannot be waited for, and its number is another process's.
                Ok(process) if !is_ours(WaitId::PidFd(process.as_fd())) => Err(Failure::lost()),
                Ok(process) => Ok((stdout, process)),
                // It has ended and cannot be waited for.
                Err(Errno::SRCH) => Err(Failure::lost()),
                Err(errno) => Err(Failure::output(errno)),
            }
        });
        match opened {
            Ok((stdout, process)) => Ok(Self { child, process, stdout }),
            Err(error) => {
                let pid = Pid::from_child(child);
                if is_ours(WaitId::Pid(pid)) {
                    let _ = kill_process_group(pid, Signal::KILL);
                    let _ = child.kill();
                    let _ = child.wait();
                }
                Err(error)
            }
        }
    }

    /// Hands over the question and reads until the plugin has ended.
    pub(super) fn converse(
        &mut self,
        input: &[u8],
        most: usize,
        deadline: Instant,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        if let Some(mut stdin) = self.child.stdin.take() {
            // A question is shorter than a pipe is wide, so this does not block. A plugin that does
            // not read it needs it not.
            let _ = stdin.write_all(input);
        }
        // A vector that grows would leave its old copy in freed memory. What is not used is never
        // touched.
        let mut output = Zeroizing::new(vec![0; most + 1]);
        let mut length = 0;
        let (mut open, mut ended) = (true, false);
        loop {
            // All that it wrote itself is in the pipe once it has ended.
            let left = match deadline.saturating_duration_since(Instant::now()) {
                _ if ended => Duration::ZERO,
                Duration::ZERO => return Err(Failure::hung()),
                left => left,
            };
            let watched = [self.process.as_fd(), self.stdout.as_fd()];
            let mut watched = watched.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
            let count = if open { 2 } else { 1 };
            match poll(&mut watched[..count], timespec(left).as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure::output(errno)),
            }
            let [has_ended, has_output] = watched.map(|one| !one.revents().is_empty());
            if has_output {
                let count = self.stdout.read(&mut output[length..]).map_err(Failure::output)?;
                open = count > 0;
                length += count;
                if length == output.len() {
                    let rule = format_args!("it has more than {most} bytes");
                    return Err(Failure::unusable(rule));
                }
            }
            if ended && !(open && has_output) {
                output.truncate(length);
                return Ok(output);
            }
            ended |= has_ended;
        }
    }

    /// Kills the plugin and whatever is left of its group, and takes its exit status.
    pub(super) fn end(self) -> Result<ExitStatus, Failure> {
        // A child that can be waited for still has its number, and the group of that number is its
        // own.
        if is_ours(WaitId::PidFd(self.process.as_fd())) {
            let _ = kill_process_group(Pid::from_child(self.child), Signal::KILL);
        }
        // It may have left its group. The descriptor is never anybody else's.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        let mut descriptors = [PollFd::new(&self.process, PollFlags::IN)];
        match poll(&mut descriptors, timespec(KILL_WITHIN).as_ref()) {
            Ok(0) => Err(Failure::hung()),
            _ => self.child.wait().map_err(|_| Failure::lost()),
        }
    }
}

/// Whether this is a child of this process that has not been waited for.
fn is_ours(child: WaitId<'_>) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(child, look).is_ok()
}

/// `None`, which waits for ever, only beyond what the kernel can count.
fn timespec(duration: Duration) -> Option<Timespec> {
    duration.try_into().ok()
}
