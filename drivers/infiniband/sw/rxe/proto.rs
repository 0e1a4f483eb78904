// SPDX-License-Identifier: GPL-2.0

//! The transport protocol: requester, completer and responder as state machines that are driven
//! packet by packet and clock tick by clock tick (IBTA vol. 1, chapter 9).
//!
//! Nothing here calls the kernel. Memory, network, completion queues and the clock are behind the
//! traits of [`mod@env`], so that the same code runs in tests and fuzzers on any host.
//!
//! # Two sides, two locks
//!
//! A queue pair has a [`send::SendSide`] (requester and completer) and a [`recv::RecvSide`]
//! (responder). They share nothing, so each has a lock of its own and both may run at the same
//! time. All entry points take `&mut self`: the caller holds the lock of that side, and never the
//! other's while it calls. A change of the state of the queue pair (modify, or an error that one
//! side found) goes to the two sides one after the other.
//!
//! No consumer is called from inside. Completions are written to their queue by the environment
//! at once, in order; completion handlers and events are the environment's outbox, which the
//! caller delivers after it has dropped the lock.

pub(crate) mod attrs;
pub(crate) mod env;
pub(crate) mod recv;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod state;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
pub(crate) mod testing;
pub(crate) mod wr;
