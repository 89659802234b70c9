//! How a request is answered: in the thread that has read it, as far as that goes without waiting,
//! and from then on in a task. Much is answered from what is known already, without a change of
//! threads.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Wake, Waker},
};

use tokio::runtime::Handle;

/// What answers a request. One kind, and not one for each request: compiling the tasks of each took
/// longer than all else here.
type Answer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Answers; on return that is done, or under way.
pub fn begin(runtime: &Handle, answer: impl Future<Output = ()> + Send + 'static) {
    let mut answer: Answer = Box::pin(answer);
    let begun = Arc::new(Begun { runtime: runtime.clone(), state: Mutex::new(State::Begins) });
    let waker = Waker::from(begun.clone());
    let polled = {
        let _runtime = runtime.enter();
        // As in a task: who panics fails alone, and drops the reply, which says EIO.
        catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(&mut Context::from_waker(&waker))))
    };
    if polled.is_ok_and(|polled| polled.is_pending()) {
        begun.waits(answer);
    }
}

/// An answer that was begun outside of the runtime.
struct Begun {
    runtime: Handle,
    state: Mutex<State>,
}

enum State {
    /// It is in the thread that has begun it.
    Begins,
    /// It waits for something.
    Waits(Answer),
    /// What it waits for has come: it is a task, or will be.
    GoesOn,
}

impl Begun {
    fn waits(&self, answer: Answer) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Begins => *state = State::Waits(answer),
            State::Waits(_) | State::GoesOn => drop(self.runtime.spawn(answer)),
        }
    }
}

impl Wake for Begun {
    fn wake(self: Arc<Self>) {
        let before = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::GoesOn)
        };
        if let State::Waits(answer) = before {
            drop(self.runtime.spawn(answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::{Notify, oneshot};

    use super::*;

    /// What need not wait is done on return, in this thread; what waits goes on in another one,
    /// also if what it waits for comes while it begins.
    #[test]
    fn answers_go_on_where_they_have_to() {
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
}
