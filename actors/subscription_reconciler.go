package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/messages"
)

// subscriptionRetry is the wait before rejected or unconfirmed subscriptions are requested
// again.
var subscriptionRetry = backoff.Backoff{First: time.Second, Max: 10 * time.Minute}

// subscriptionReconciler decides when the subscriptions of a session are reconciled
// with the desired state: after a start, when the desired state has a new version, when
// a caller waits for an answer, when the server leaves out resources later, and when a
// retry is due. The work is done by the
// subscriber, in a goroutine of its own, one run at a time.
//
// All fields but subscriber are owned by the port's actor goroutine.
type subscriptionReconciler struct {
	port       *portRef
	subscriber *subscription.Subscriber // has its own rules; see there

	active      bool                   // between start and stop
	running     bool                   // a run of the subscriber
	version     uint64                 // of the desired state that was applied last
	waiting     []subscription.Request // callers that the next run serves
	leftOut     bool                   // the server has left out resources that the next run finds
	retryNeeded bool
	pause       time.Duration // before the last retry; 0: no retry since a success
	retry       *time.Timer   // nil: no timer is armed
}

// Messages about subscriptions. All but the first are of a port to itself.
type (
	// reconcileSubscriptions: the desired state may have a new version. With a Reply,
	// a caller waits for the answer to just that request.
	reconcileSubscriptions struct {
		messages.Base
		request subscription.Request
	}
	// resourcesLeftOut: an acknowledgement that no caller waited for leaves out resources.
	resourcesLeftOut struct{ messages.Base }
	// subscriptionsReconciled: a run has ended.
	subscriptionsReconciled struct {
		messages.Base
		result subscription.Result
	}
	// retrySubscriptions: the retry timer fired.
	retrySubscriptions struct{ messages.Base }
)

func newSubscriptionReconciler(port *portRef, refresher *refresher, missed *missedUpdates) *subscriptionReconciler {
	rt, inc := port.rt, port.inc
	idle, total := CallTimeouts(&inc.spec.Timeouts, 0)
	return &subscriptionReconciler{port: port, subscriber: subscription.NewSubscriber(subscription.Config{
		Session: inc.session, Desired: inc.desired, Server: inc.server, Epoch: inc.epoch, Logger: &rt.opts.Logger,
		CallTimeout: idle, CallTotal: total, SharedPipe: inc.spec.HTTP == nil,
		Go:           func(f func()) { rt.goSafe("port", f, nil) },
		ListsChanged: refresher.markChanged, ResourcesUpdated: missed.add, WrapError: inc.wrapError,
		LeftOut: func() { port.sendSelf(&resourcesLeftOut{}) },
	})}
}

// receive handles the messages about subscriptions, and ignores all others.
func (r *subscriptionReconciler) receive(m any) {
	switch m := m.(type) {
	case *reconcileSubscriptions:
		if m.request.Reply != nil {
			r.waiting = append(r.waiting, m.request)
		}
		if r.isOutdated() {
			r.run(false)
		}
	case *resourcesLeftOut:
		r.leftOut = true
		r.next()
	case *otherStreamEnded:
		r.subscriber.OtherStreamEnded()
	case *subscriptionsReconciled:
		r.onReconciled(m.result)
	case *retrySubscriptions:
		r.run(true)
	}
}

func (r *subscriptionReconciler) start() {
	r.active = true
	r.next()
}

func (r *subscriptionReconciler) stop() {
	r.active = false
	stopTimer(&r.retry)
}

// begin notes that discovery runs the subscriber, by applyAtStart.
func (r *subscriptionReconciler) begin() { r.running = true }

// applyAtStart applies the desired state to a new session. Rejections, and answers that
// do not come in time, do not keep the server from becoming ready. It runs in the
// goroutine that discovers.
func (r *subscriptionReconciler) applyAtStart(ctx context.Context) {
	r.port.sendSelf(&subscriptionsReconciled{result: r.subscriber.Reconcile(ctx, nil, false)})
}

func (r *subscriptionReconciler) isOutdated() bool {
	return len(r.waiting) > 0 || r.port.inc.desired.ChangedSince(r.version)
}

// run starts a run of the subscriber. retry: rejected resources are requested again.
// During a run, and before the server is ready, it does nothing: next sees to it later.
func (r *subscriptionReconciler) run(retry bool) {
	if !r.active || r.running {
		return
	}
	r.running, r.leftOut = true, false
	stopTimer(&r.retry)
	port, waiting := r.port, r.waiting
	r.waiting = nil
	port.rt.goSafe("port", func() {
		ctx, cancel := bounded(port.inc.spec.Timeouts.Call)
		defer cancel()
		port.sendSelf(&subscriptionsReconciled{result: r.subscriber.Reconcile(ctx, waiting, retry)})
	}, func(v any) {
		for _, request := range waiting {
			answer(request.Reply, port.inc.wrapError(fmt.Errorf("internal error: %v", v)))
		}
		_, _, version := port.inc.desired.Snapshot() // so that the next run is the retry
		port.sendSelf(&subscriptionsReconciled{result: subscription.Result{Version: version, RetryNeeded: true}})
	})
}

func (r *subscriptionReconciler) onReconciled(result subscription.Result) {
	r.running, r.retryNeeded = false, result.RetryNeeded
	r.version = max(r.version, result.Version)
	if !result.RetryNeeded {
		r.pause = 0
	}
	r.next()
}

// next starts the next run, or plans a retry.
func (r *subscriptionReconciler) next() {
	switch {
	case !r.active || r.running || r.retry != nil:
	case r.isOutdated() || r.leftOut:
		r.run(false)
	case r.retryNeeded:
		r.pause = subscriptionRetry.Next(r.pause)
		r.retry = r.port.afterFunc(r.pause, &retrySubscriptions{})
	}
}
