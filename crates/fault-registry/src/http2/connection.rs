//! The state of a connection: streams, windows, requests that wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write as _};

use super::frame::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE,
};
use super::hpack::Decoder;
use crate::request::Request;
use crate::wire::Wire;

/// What a client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The setting for how much data a new stream may carry.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// What it is where nobody says otherwise.
const DEFAULT_WINDOW: i64 = 65_535;

/// One connection.
pub(super) struct Connection<'a> {
    pub(super) wire: &'a mut Wire,
    number: usize,
    decoder: Decoder,
    initial_window: i64,
    window: i64,
    /// How much each stream may carry beyond the initial window, and what it has carried as a
    /// negative number.
    windows: BTreeMap<u32, i64>,
    /// Requests whose body is not complete.
    partial: BTreeMap<u32, Request>,
    ready: VecDeque<(u32, Request)>,
    /// Streams that the client has given up.
    abandoned: BTreeSet<u32>,
}

impl<'a> Connection<'a> {
    /// Reads the preface and sends our settings.
    pub(super) fn open(wire: &'a mut Wire, number: usize) -> io::Result<Self> {
        let mut preface = [0; PREFACE.len()];
        wire.read_exact(&mut preface)?;
        if preface != PREFACE {
            return Err(io::Error::other("no HTTP/2 preface"));
        }
        frame::write(wire, SETTINGS, 0, 0, &[])?;
        wire.flush()?;
        Ok(Self {
            wire,
            number,
            decoder: Decoder::default(),
            initial_window: DEFAULT_WINDOW,
            window: DEFAULT_WINDOW,
            windows: BTreeMap::new(),
            partial: BTreeMap::new(),
            ready: VecDeque::new(),
            abandoned: BTreeSet::new(),
        })
    }

    /// Waits for a request that is complete.
    pub(super) fn next_request(&mut self) -> io::Result<(u32, Request)> {
        loop {
            if let Some(request) = self.ready.pop_front() {
                return Ok(request);
            }
            self.take_frame()?;
        }
    }

    /// Waits until a stream may carry data, and takes from its window; 0 where the client has given
    /// it up.
    pub(super) fn take_window(&mut self, stream: u32, wanted: usize) -> io::Result<usize> {
        loop {
            if self.abandoned.contains(&stream) {
                return Ok(0);
            }
            let own = self.initial_window + self.windows.get(&stream).copied().unwrap_or(0);
            let free = own.min(self.window);
            if let Some(free) = usize::try_from(free).ok().filter(|free| *free > 0) {
                let taken = wanted.min(free);
                let signed = i64::try_from(taken).unwrap_or(0);
                *self.windows.entry(stream).or_default() -= signed;
                self.window -= signed;
                return Ok(taken);
            }
            self.take_frame()?;
        }
    }

    /// Whether the client has given a stream up, as far as is known.
    pub(super) fn is_abandoned(&self, stream: u32) -> bool {
        self.abandoned.contains(&stream)
    }

    /// Reads one frame and does what it asks for.
    fn take_frame(&mut self) -> io::Result<()> {
        let frame = Frame::read(self.wire)?;
        match frame.kind {
            HEADERS => self.take_headers(&frame)?,
            DATA => self.take_data(&frame)?,
            RST_STREAM => {
                self.abandoned.insert(frame.stream);
                self.partial.remove(&frame.stream);
                self.ready.retain(|(stream, _)| *stream != frame.stream);
            }
            SETTINGS if !frame.has(ACK) => {
                self.take_settings(&frame.payload);
                frame::write(self.wire, SETTINGS, ACK, 0, &[])?;
            }
            PING if !frame.has(ACK) => frame::write(self.wire, PING, ACK, 0, &frame.payload)?,
            WINDOW_UPDATE => {
                let more = i64::from(frame.number() & 0x7fff_ffff);
                match frame.stream {
                    0 => self.window += more,
                    stream => *self.windows.entry(stream).or_default() += more,
                }
            }
            _ => {}
        }
        self.wire.flush()
    }

    fn take_settings(&mut self, payload: &[u8]) {
        let (settings, _) = payload.as_chunks::<6>();
        for [a, b, value @ ..] in settings {
            if u16::from_be_bytes([*a, *b]) == INITIAL_WINDOW_SIZE {
                self.initial_window = i64::from(u32::from_be_bytes(*value));
            }
        }
    }

    fn take_headers(&mut self, frame: &Frame) -> io::Result<()> {
        let mut block = frame.content().to_vec();
        let mut is_complete = frame.has(END_HEADERS);
        while !is_complete {
            let more = Frame::read(self.wire)?;
            if more.kind != CONTINUATION {
                return Err(io::Error::other("headers without their continuation"));
            }
            block.extend_from_slice(&more.payload);
            is_complete = more.has(END_HEADERS);
        }
        let headers = self.decoder.decode(&block)?;
        let value = |wanted: &str| {
            let found = headers.iter().find(|(name, _)| name == wanted);
            found.map_or("", |(_, value)| value.as_str())
        };
        let mut request = Request::new(value(":method"), value(":path"));
        request.connection = self.number;
        request.is_http2 = true;
        request.headers = vec![("host".to_owned(), value(":authority").to_owned())];
        let ordinary = headers.iter().filter(|(name, _)| !name.starts_with(':'));
        request.headers.extend(ordinary.cloned());
        if frame.has(END_STREAM) {
            self.ready.push_back((frame.stream, request));
        } else {
            self.partial.insert(frame.stream, request);
        }
        Ok(())
    }

    fn take_data(&mut self, frame: &Frame) -> io::Result<()> {
        let Some(mut request) = self.partial.remove(&frame.stream) else {
            return Ok(());
        };
        request
            .body
            .push_str(&String::from_utf8_lossy(frame.content()));
        if frame.has(END_STREAM) {
            self.ready.push_back((frame.stream, request));
        } else {
            self.partial.insert(frame.stream, request);
        }
        Ok(())
    }
}
