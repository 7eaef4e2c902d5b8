//go:build linux

package fleettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
)

// caller makes calls, and keeps a journal of them that outlives the process.
type caller struct {
	client  *fleet.Node
	journal *os.File // appended to, a line with each write
	prefix  string   // of the ids
	last    atomic.Uint64
}

func newCaller(client *fleet.Node, dir, node string) (*caller, error) {
	c := &caller{client: client, prefix: fmt.Sprintf("%s-%d-", node, os.Getpid())}
	var err error
	c.journal, err = os.OpenFile(filepath.Join(dir, c.prefix+"journal"+journalSuffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	return c, err
}

func (c *caller) write(call Call) {
	line, err := json.Marshal(call)
	if err == nil {
		_, err = c.journal.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Errorf("fleettest: the journal: %w", err))
	}
}

// callOptions say how a call is made.
type callOptions struct {
	Tool    string        `json:"tool,omitempty"` // default: toolCall
	Timeout time.Duration `json:"timeout"`
	Wait    bool          `json:"wait,omitempty"` // WithWaitReady
	Args    arguments     `json:"args"`
}

// call makes one call and notes it. The context's end is the limit of the call.
func (c *caller) call(server string, o callOptions) Call {
	o.Args.ID = fmt.Sprint(c.prefix, c.last.Add(1))
	if o.Tool == "" {
		o.Tool = toolCall
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	now := boottime.Now()
	begun := Call{ID: o.Args.ID, Node: os.Getpid(), Server: server, Sent: now, Limit: now + o.Timeout}
	c.write(begun)
	var opts []facade.CallOption
	if o.Wait {
		opts = append(opts, facade.WithWaitReady())
	}
	result, err := c.client.CallTool(ctx, server+"/"+o.Tool, o.Args, opts...)
	ended := Call{ID: o.Args.ID, Ended: boottime.Now()}
	ended.fill(result, err)
	c.write(ended)
	ended.Server, ended.Sent, ended.Node, ended.Limit = server, begun.Sent, begun.Node, begun.Limit
	return ended
}

// fill notes how a call has ended.
func (c *Call) fill(result *mcp.CallToolResult, err error) {
	if err != nil {
		var e *mcpvisor.Error
		if errors.As(err, &e) {
			c.Outcome, c.Kind = string(e.Outcome), string(e.Kind)
		}
		c.Error = err.Error()
		return
	}
	c.Outcome = outcomeResult
	if len(result.Content) == 1 {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			var a Answer
			if json.Unmarshal([]byte(text.Text), &a) == nil {
				c.PID, c.Epoch, c.Token = a.PID, a.Epoch, a.Token
			}
		}
	}
}

// probe calls every name until it has answered, and returns the first results. After the timeout it
// returns the last failures instead.
func (c *caller) probe(names []string, timeout time.Duration) []Call {
	calls := make([]Call, len(names))
	until := boottime.Now() + timeout
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			for {
				left := until - boottime.Now()
				calls[i] = c.call(name, callOptions{Timeout: max(left, 10*time.Millisecond), Wait: true})
				if calls[i].Outcome == outcomeResult || left <= 0 {
					return
				}
				time.Sleep(5 * time.Millisecond) // between attempts
			}
		})
	}
	all.Wait()
	return calls
}

// loadOptions say what callers do until they are told to stop.
type loadOptions struct {
	Names   []string      `json:"names"`
	Callers int           `json:"callers"`
	Pause   time.Duration `json:"pause"` // of a caller between two calls
	Seed    uint64        `json:"seed"`
	Call    callOptions   `json:"call"`
}

// Load counts what the callers have seen.
type Load struct {
	Calls int `json:"calls"`
	// Outcomes counts calls by outcome and kind of error.
	Outcomes map[string]int `json:"outcomes"`
	// Samples are errors, one of each kind.
	Samples map[string]string `json:"samples,omitempty"`
	// Hung counts calls without a result that have used up all their time.
	Hung    int           `json:"hung"`
	P50     time.Duration `json:"p50"`
	P99     time.Duration `json:"p99"`
	Longest time.Duration `json:"longest"`

	took []time.Duration
}

func (l *Load) add(c Call) {
	if l.Outcomes == nil {
		l.Outcomes, l.Samples = map[string]int{}, map[string]string{}
	}
	key := c.Outcome
	if c.Kind != "" {
		key += " " + c.Kind
	}
	l.Calls++
	l.Outcomes[key]++
	if c.Error != "" && l.Samples[key] == "" {
		l.Samples[key] = c.Error
	}
	if c.Error != "" && c.Limit != 0 && c.Ended >= c.Limit {
		l.Hung++
	}
	l.took = append(l.took, c.Ended-c.Sent)
}

func (l *Load) sum() {
	slices.Sort(l.took)
	if n := len(l.took); n > 0 {
		l.P50, l.P99, l.Longest = l.took[n/2], l.took[n*99/100], l.took[n-1]
	}
}

// Failed counts the calls without a result.
func (l *Load) Failed() int { return l.Calls - l.Outcomes[outcomeResult] }

// String shows all in one line.
func (l *Load) String() string {
	return fmt.Sprintf("%d calls, %v, p50 %v, p99 %v, longest %v", l.Calls, l.Outcomes, round(l.P50), round(l.P99), round(l.Longest))
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// load calls at random until stop is closed, and returns when all calls have ended.
func (c *caller) load(o loadOptions, stop <-chan struct{}) *Load {
	var mu sync.Mutex
	sum := &Load{}
	var all sync.WaitGroup
	for i := range o.Callers {
		random := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(o.Pause):
				}
				call := c.call(o.Names[random.IntN(len(o.Names))], o.Call)
				mu.Lock()
				sum.add(call)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	sum.sum()
	return sum
}

// burstOptions say what callers do as fast as they can, without a journal.
type burstOptions struct {
	Names   []string      `json:"names"`
	Callers int           `json:"callers"`
	For     time.Duration `json:"for"`
	Calls   int           `json:"calls"` // of each caller at most; 0: any number
	Tool    string        `json:"tool"`
	Args    arguments     `json:"args"`
}

// burstTimeout bounds each call of a burst.
const burstTimeout = time.Minute

// burst measures calls.
func (c *caller) burst(o burstOptions) *Load {
	args, err := json.Marshal(o.Args)
	if err != nil {
		panic(err) // strings and numbers
	}
	var mu sync.Mutex
	sum := &Load{}
	var all sync.WaitGroup
	until := boottime.Now() + o.For
	for i := range o.Callers {
		all.Go(func() {
			name := o.Names[i%len(o.Names)]
			mine := []Call{}
			for n := 0; o.Calls == 0 || n < o.Calls; n++ {
				call := Call{Server: name, Sent: boottime.Now(), Outcome: outcomeResult}
				call.Limit = call.Sent + burstTimeout
				if call.Sent >= until {
					break
				}
				ctx, cancel := context.WithTimeout(context.Background(), burstTimeout)
				result, err := c.client.CallToolRaw(ctx, name+"/"+o.Tool, args, facade.WithWaitReady())
				cancel()
				if err != nil {
					call.fill(nil, err)
				} else if len(result) < o.Args.Bytes {
					call.Outcome = "short"
				}
				call.Ended = boottime.Now()
				mine = append(mine, call)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, call := range mine {
				sum.add(call)
			}
		})
	}
	all.Wait()
	sum.sum()
	return sum
}
