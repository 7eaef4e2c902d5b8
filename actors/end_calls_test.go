package actors

import "sync"

// endCalls calls the functions of OnDead and OnReleased of a session of the tests.
type endCalls struct{ dead sync.WaitGroup }

func (c *endCalls) onDead(dead <-chan struct{}, f func()) {
	c.dead.Go(func() {
		<-dead
		f()
	})
}

func (c *endCalls) onReleased(released <-chan struct{}, f func()) {
	go func() {
		<-released
		c.dead.Wait()
		f()
	}()
}
