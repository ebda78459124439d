//! What went over a line, read from the headers of its packets.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

/// How many connections are told apart; more are no longer counted.
const MAX_CONNECTIONS: usize = 1 << 16;

/// What went over a line since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// From the near end to the far one.
    pub up: Way,
    /// From the far end to the near one.
    pub down: Way,
    /// TCP connections that the near end began.
    pub connections: u64,
    /// At how many connections at once the near end waited for the first byte of an answer: it had
    /// sent something and the far end nothing since. Requests in flight, for HTTP/1.1.
    pub waiting_at_most: u64,
}

/// One way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Packets that were taken.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets that found the queue full.
    pub lost: u64,
}

/// The connections of a line.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    begun: HashSet<(u16, u16, u32)>,
    /// By the near end's port.
    waiting: HashMap<u16, bool>,
    waiting_at_most: usize,
}

impl Connections {
    /// Takes note of a packet that the near end sent.
    pub(crate) fn sent(&mut self, packet: &[u8]) {
        let Some(segment) = Segment::of(packet) else {
            return;
        };
        if segment.is_first {
            if self.begun.len() < MAX_CONNECTIONS {
                // Sent again, it has the same number.
                self.begun.insert((segment.from, segment.to, segment.number));
            }
            self.waiting.remove(&segment.from);
        } else if segment.has_payload && self.waiting.len() < MAX_CONNECTIONS {
            self.waiting.insert(segment.from, true);
            let waiting = self.waiting.values().filter(|waits| **waits).count();
            self.waiting_at_most = self.waiting_at_most.max(waiting);
        }
    }

    /// Takes note of a packet that reached the near end.
    pub(crate) fn received(&mut self, packet: &[u8]) {
        let Some(segment) = Segment::of(packet) else {
            return;
        };
        if segment.is_last || segment.has_payload {
            self.waiting.remove(&segment.to);
        }
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.len() as u64
    }

    pub(crate) const fn waiting_at_most(&self) -> u64 {
        self.waiting_at_most as u64
    }
}

/// What is of interest in a TCP segment over IPv4 (RFC 791, RFC 9293).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    from: u16,
    to: u16,
    number: u32,
    /// SYN without ACK.
    is_first: bool,
    /// FIN or RST.
    is_last: bool,
    has_payload: bool,
}

impl Segment {
    fn of(packet: &[u8]) -> Option<Self> {
        const TCP: u8 = 6;
        let [first, ..] = packet else { return None };
        if first >> 4 != 4 || *packet.get(9)? != TCP {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        let segment = packet.get(usize::from(first & 15) * 4..total)?;
        let (header, _) = segment.split_first_chunk::<20>()?;
        let flags = header[13];
        Some(Self {
            from: u16::from_be_bytes([header[0], header[1]]),
            to: u16::from_be_bytes([header[2], header[3]]),
            number: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            is_first: flags & 0x12 == 0x02,
            is_last: flags & 0x05 != 0,
            has_payload: segment.len() > usize::from(header[12] >> 4) * 4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: u8 = 2;
    const ACK: u8 = 16;
    const FIN: u8 = 1;

    fn packet(from: u16, to: u16, number: u32, flags: u8, payload: usize) -> Vec<u8> {
        let mut packet = vec![0; 40 + payload];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&u16::try_from(40 + payload).unwrap().to_be_bytes());
        packet[9] = 6;
        packet[20..22].copy_from_slice(&from.to_be_bytes());
        packet[22..24].copy_from_slice(&to.to_be_bytes());
        packet[24..28].copy_from_slice(&number.to_be_bytes());
        packet[32] = 0x50;
        packet[33] = flags;
        packet
    }

    #[test]
    fn a_first_segment_that_is_sent_again_is_one_connection() {
        let mut connections = Connections::default();
        for (from, number) in [(1, 7), (1, 7), (2, 7), (1, 8)] {
            connections.sent(&packet(from, 80, number, SYN, 0));
        }
        connections.sent(&packet(3, 80, 1, SYN | ACK, 0));
        assert_eq!(connections.begun(), 3);
    }

    #[test]
    fn who_waits_has_sent_and_got_nothing_since() {
        let mut connections = Connections::default();
        for from in [1, 2, 3] {
            connections.sent(&packet(from, 80, 1, ACK, 100));
            connections.sent(&packet(from, 80, 101, ACK, 100));
        }
        connections.sent(&packet(4, 80, 1, ACK, 0));
        assert_eq!(connections.waiting_at_most(), 3);
        connections.received(&packet(80, 1, 1, ACK, 10));
        connections.received(&packet(80, 2, 1, FIN | ACK, 0));
        connections.received(&packet(80, 3, 1, ACK, 0));
        connections.sent(&packet(1, 80, 201, ACK, 100));
        connections.sent(&packet(5, 80, 1, ACK, 100));
        assert_eq!(connections.waiting_at_most(), 3);
        connections.sent(&packet(6, 80, 1, ACK, 100));
        assert_eq!(connections.waiting_at_most(), 4);
    }

    #[test]
    fn what_is_no_tcp_over_ipv4_is_nothing() {
        let good = packet(1, 2, 3, SYN, 4);
        assert!(Segment::of(&good).is_some());
        for length in 0..40 {
            assert_eq!(Segment::of(&good[..length]), None);
        }
        for (place, value) in [(0, 0x65), (9, 17), (0, 0x4f), (2, 0xff)] {
            let mut bad = good.clone();
            bad[place] = value;
            assert_eq!(Segment::of(&bad), None, "{place} {value}");
        }
    }
}
