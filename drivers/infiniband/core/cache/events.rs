// SPDX-License-Identifier: GPL-2.0

//! The way of an event from the driver to the handlers.

use kernel::prelude::*;
use rdma::event::{self, Event, PortEvent};
use rdma::port::Port;
use rdma::pr_warn_ratelimited;

use super::ports::{self, Refresh};

/// What has to be refreshed before handlers hear of an event; nothing if the cache is not concerned.
fn refresh_of(event: PortEvent) -> Option<Refresh> {
    match event {
        PortEvent::SmChange => None,
        PortEvent::Active
        | PortEvent::Err
        | PortEvent::LidChange
        | PortEvent::PkeyChange
        | PortEvent::ClientReregister
        | PortEvent::GidChange => Some(Refresh {
            gids: matches!(event, PortEvent::GidChange | PortEvent::ClientReregister),
            pkeys: event == PortEvent::PkeyChange,
        }),
    }
}

/// Takes an event from a driver. Any context; the rest happens on the work queue.
pub(crate) fn dispatch(event: Event) {
    if event::queue()
        .try_spawn(GFP_ATOMIC, move || process(event))
        .is_err()
    {
        pr_warn_ratelimited!("no memory for an event, it is lost\n");
    }
}

/// Refreshes the cache, and calls the handlers if that succeeds.
fn process(event: Event) {
    let concerned = event
        .port_event()
        .and_then(|(kind, port)| Some((kind, port, refresh_of(kind)?)));
    let Some((kind, number, what)) = concerned else {
        return event.deliver();
    };
    let refreshed = Port::new(event.device(), number).is_some_and(|port| {
        // After the cleanup the driver may be gone.
        let is_open = port
            .gid_table()
            .is_some_and(|table| !table.lock().is_closed());
        is_open && ports::refresh(&port, what).is_ok()
    });
    // Each change of a RoCE table was delivered when it happened.
    if refreshed && kind != PortEvent::GidChange {
        event.deliver();
    }
}

#[kunit_tests(rust_ib_core_cache_events)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_events_refresh_tables() {
        assert!(refresh_of(PortEvent::SmChange).is_none());
        let link = Refresh {
            gids: false,
            pkeys: false,
        };
        for event in [PortEvent::Active, PortEvent::Err, PortEvent::LidChange] {
            assert!(refresh_of(event) == Some(link));
        }
        let gids = Some(Refresh { gids: true, ..link });
        assert!(refresh_of(PortEvent::GidChange) == gids);
        assert!(refresh_of(PortEvent::ClientReregister) == gids);
        assert!(
            refresh_of(PortEvent::PkeyChange)
                == Some(Refresh {
                    pkeys: true,
                    ..link
                })
        );
    }
}
