//! Work that begins in the thread that asks for it, and goes on in a task once it had to wait: what
//! is known already is answered, and a request leaves, without a change of threads.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Wake, Waker},
};

use tokio::runtime::Handle;

use crate::sync::Mutex;

/// One kind, and not one for each use: compiling the tasks of each took longer than all else.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Begins some work; on return that is done, or under way. Nobody need wait for it, and nobody ends
/// it but the runtime, from the first time on that it is woken. If it panics it fails alone, as a
/// task does. Not for a caller who holds what the work needs.
pub fn begin(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    let mut work: Work = Box::pin(work);
    let begun = Arc::new(Begun { runtime: runtime.clone(), state: Mutex::new(State::Begins) });
    let waker = Waker::from(begun.clone());
    let polled = {
        let _runtime = runtime.enter();
        catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(&waker))))
    };
    if polled.is_ok_and(|polled| polled.is_pending()) {
        begun.waits(work);
    }
}

/// Work that has begun.
struct Begun {
    runtime: Handle,
    state: Mutex<State>,
}

enum State {
    /// It is in the thread that begins it.
    Begins,
    /// It waits for something.
    Waits(Work),
    /// What it waits for has come: it is a task, or will be.
    GoesOn,
}

impl Begun {
    fn waits(&self, work: Work) {
        {
            let mut state = self.state.lock();
            if let State::Begins = *state {
                *state = State::Waits(work);
                return;
            }
        }
        // What it waits for has come meanwhile.
        go_on(self.runtime.clone(), work);
    }
}

impl Wake for Begun {
    fn wake(self: Arc<Self>) {
        let before = std::mem::replace(&mut *self.state.lock(), State::GoesOn);
        if let State::Waits(work) = before {
            go_on(self.runtime.clone(), work);
        }
    }
}

thread_local! {
    /// Whether somebody in this thread is making tasks, and what he has to make more of.
    static GOING_ON: (Cell<bool>, RefCell<VecDeque<(Handle, Work)>>) = Default::default();
}

/// Makes a task of some work. A runtime that has ended drops the work instead, which may wake the
/// next one: that goes after it then, not within it.
fn go_on(runtime: Handle, work: Work) {
    GOING_ON.with(|(is_busy, next)| {
        next.borrow_mut().push_back((runtime, work));
        if is_busy.replace(true) {
            return;
        }
        loop {
            let first = next.borrow_mut().pop_front();
            let Some((runtime, work)) = first else { break };
            runtime.spawn(work);
        }
        is_busy.set(false);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::{Notify, oneshot};

    use super::*;

    /// What need not wait is done on return, in this thread; what waits goes on in another one,
    /// also if what it waits for comes while it begins.
    #[test]
    fn work_goes_on_where_it_has_to() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (tell, told) = mpsc::channel();
        let here = std::thread::current().id();
        let is_here = move || std::thread::current().id() == here;
        let to = tell.clone();
        begin(runtime.handle(), async move { to.send(is_here()).unwrap() });
        assert_eq!(told.try_recv(), Ok(true));

        let (go, wait) = oneshot::channel::<()>();
        let to = tell.clone();
        begin(runtime.handle(), async move {
            to.send(is_here()).unwrap();
            wait.await.unwrap();
            tokio::task::yield_now().await;
            to.send(is_here()).unwrap();
        });
        assert_eq!(told.try_recv(), Ok(true));
        assert!(told.try_recv().is_err());
        go.send(()).unwrap();
        assert_eq!(told.recv(), Ok(false));

        let to = tell.clone();
        begin(runtime.handle(), async move {
            tokio::task::yield_now().await; // wakes itself
            to.send(is_here()).unwrap();
        });
        assert_eq!(told.recv(), Ok(false));

        begin(runtime.handle(), async { panic!("by itself") });
        let notify = Arc::new(Notify::new());
        for _ in 0..200 {
            let (to, notified) = (tell.clone(), notify.clone());
            let waker = notify.clone();
            let waking = std::thread::spawn(move || waker.notify_one());
            begin(runtime.handle(), async move {
                notified.notified().await;
                to.send(true).unwrap();
            });
            waking.join().unwrap();
            assert_eq!(told.recv(), Ok(true));
        }
    }

    /// Work that a runtime drops as it has ended may wake other work, and that more: all of it is
    /// dropped, one after another.
    #[test]
    fn the_end_of_a_runtime_ends_all() {
        struct WakesNext(Arc<Notify>);
        impl Drop for WakesNext {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (handle, notify) = (runtime.handle().clone(), Arc::new(Notify::new()));
        for _ in 0..50_000 {
            let guard = WakesNext(notify.clone());
            begin(&handle, async move {
                guard.0.notified().await;
                std::future::pending::<()>().await;
            });
        }
        drop(runtime);
        notify.notify_one();
        assert_eq!(Arc::strong_count(&notify), 1);
    }
}
