package guard

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Guard watches over the exclusive servers of this node, from [Start] to [Guard.Close]. If its
// process dies or hangs, it is replaced. Safe for concurrent use.
type Guard struct {
	config  Config
	program string // that runs as the guard: this one
	token   string
	done    chan struct{} // closed when keep has returned

	mu       sync.Mutex
	deadline time.Duration // guarded by mu, as the fields below
	held     map[int]bool
	process  *guardProcess // nil before the first one
	answered chan struct{} // closed, and replaced, when all messages are answered
	closed   bool
}

// guardProcess is one process of a guard.
type guardProcess struct {
	cmd    *exec.Cmd
	stdin  *os.File
	number uint64               // of the last message; guarded by the mutex of the Guard
	unsaid map[uint64]time.Time // messages without an answer; the same
	ended  chan struct{}        // closed when the process is reaped
	err    error                // why; set before
}

// Start starts the guard of this node, and returns when it watches.
func Start(ctx context.Context, config Config) (*Guard, error) {
	if config.OnLost == nil || config.Deadline <= 0 || len(config.Ticket) > maxTicket {
		return nil, fmt.Errorf("guard: OnLost and Deadline are required, and a ticket has %d bytes at most", maxTicket)
	}
	if err := supported(); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	g := &Guard{config: config, program: program, token: rand.Text(), done: make(chan struct{}), deadline: config.Deadline, held: map[int]bool{}, answered: make(chan struct{})}
	p, err := g.spawn(ctx, startTimeout)
	if err != nil {
		return nil, err
	}
	go g.keep(p) //nolint:gosec // it lives until Close, not until the end of ctx
	return g, nil
}

// Env returns the entry that the environment of each exclusive server must have, for Stdio.Env.
func (g *Guard) Env() (name, value string) { return tokenName, g.token }

// SetDeadline moves the deadline. It does not wait. If the guard does not learn of the new deadline in time, the
// earlier one counts: when that has passed, the guard kills every server that is started, until it learns of the new
// one. So a node whose deadline may have passed calls Confirm before it starts a server.
func (g *Guard) SetDeadline(deadline time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = deadline
	g.sendLocked(message{Deadline: deadline})
}

// Confirm waits until the guard has learned of everything that was said before. It fails when ctx
// ends, and when there is no longer a guard.
func (g *Guard) Confirm(ctx context.Context) error {
	for {
		g.mu.Lock()
		known, answered := g.process != nil && len(g.process.unsaid) == 0, g.answered
		g.mu.Unlock()
		if known {
			return nil
		}
		select {
		case <-answered:
		case <-g.done:
			return errors.New("guard: the guard has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Hold names the process of a server: a child of this process that leads its group.
func (g *Guard) Hold(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[pid] = true
	g.sendLocked(message{Hold: []int{pid}})
}

// Forget takes a process back that has ended.
func (g *Guard) Forget(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, pid)
	g.sendLocked(message{Forget: []int{pid}})
}

// Close says goodbye: the servers have ended, and the guard exits. It returns when it has. The lease
// is not given back.
func (g *Guard) Close() {
	g.mu.Lock()
	g.closed = true
	p := g.process
	g.sendLocked(message{Done: true})
	g.mu.Unlock()
	if p != nil {
		kill := time.AfterFunc(answerTimeout, func() { _ = p.cmd.Process.Kill() })
		<-p.ended
		kill.Stop()
	}
	<-g.done
}

// sendLocked sends a message to the process, if there is one. A guard that does not read hangs, and
// is replaced.
func (g *Guard) sendLocked(m message) {
	p := g.process
	if p == nil {
		return
	}
	p.number++
	m.Number = p.number
	line, err := json.Marshal(m)
	if err == nil {
		p.unsaid[m.Number] = time.Now()
		_ = p.stdin.SetWriteDeadline(time.Now().Add(answerTimeout))
		_, err = p.stdin.Write(append(line, '\n'))
	}
	if err != nil {
		_ = p.cmd.Process.Kill()
	}
}

// spawn starts a process, tells it everything, and waits for its answer.
func (g *Guard) spawn(ctx context.Context, bound time.Duration) (*guardProcess, error) {
	cmd := exec.Command(g.program)
	cmd.Env = append(os.Environ(), roleName+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	cmd.Stdin = r
	err = cmd.Start()
	_ = r.Close()
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	p := &guardProcess{cmd: cmd, stdin: w, unsaid: map[uint64]time.Time{}, ended: make(chan struct{})}
	go g.listen(p, stdout)
	g.mu.Lock()
	if g.closed { // meanwhile: no later call would tell this one that it may end
		g.mu.Unlock()
		_ = cmd.Process.Kill()
		<-p.ended
		return nil, errors.New("guard: it was closed")
	}
	g.process = p
	held := make([]int, 0, len(g.held))
	for pid := range g.held {
		held = append(held, pid)
	}
	sort.Ints(held)
	g.sendLocked(message{Token: g.token, Ticket: g.config.Ticket, Deadline: g.deadline, Hold: held})
	g.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("it does not answer"))
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // a process that ends answers nothing
		select {
		case <-p.ended:
			cancel()
		case <-stop:
		}
	}()
	if err := g.Confirm(ctx); err != nil {
		g.discard(p)
		return nil, fmt.Errorf("guard: the process does not start: %w (%w); does the program call guard.Main first?", err, p.err)
	}
	return p, nil
}

// oldest is when the oldest message without an answer was sent; zero without one.
func (g *Guard) oldest(p *guardProcess) (oldest time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range p.unsaid {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// listen reads the answers of a process, and reaps it.
func (g *Guard) listen(p *guardProcess, stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		n, err := strconv.ParseUint(strings.TrimSpace(lines.Text()), 10, 64)
		if err != nil {
			continue // what the program prints before it calls Main
		}
		g.mu.Lock()
		if delete(p.unsaid, n); len(p.unsaid) == 0 {
			close(g.answered)
			g.answered = make(chan struct{})
		}
		g.mu.Unlock()
	}
	if p.err = p.cmd.Wait(); p.err == nil {
		p.err = errors.New("it has ended")
	}
	close(p.ended)
}

// discard kills a process, and waits for its end. A guard that is killed kills nothing.
func (g *Guard) discard(p *guardProcess) {
	g.mu.Lock()
	if g.process == p {
		g.process = nil
	}
	g.mu.Unlock()
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = p.stdin.Close()
}

// keep replaces the process when it dies or hangs, until Close.
func (g *Guard) keep(p *guardProcess) {
	defer close(g.done)
	check := time.NewTicker(answerTimeout / 10)
	defer check.Stop()
	for {
		select {
		case <-p.ended:
		case <-check.C:
			if oldest := g.oldest(p); oldest.IsZero() || time.Since(oldest) < answerTimeout {
				continue
			}
		}
		g.discard(p)
		lost := time.Now()
		var err error
		for p = nil; p == nil; {
			g.mu.Lock()
			closed := g.closed
			g.mu.Unlock()
			if closed {
				return
			}
			if p, err = g.spawn(context.Background(), answerTimeout); err == nil {
				break
			}
			if time.Since(lost) >= answerTimeout {
				g.config.OnLost(err)
				return
			}
			<-check.C
		}
	}
}
