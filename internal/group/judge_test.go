package group_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// randomTree makes a tree of one root and up to depth levels below it.
func randomTree(r *rand.Rand, config func(c *group.Config)) (tree []group.Config) {
	names := 0
	var build func(name string, root bool, depth int)
	build = func(name string, root bool, depth int) {
		c := group.Config{Name: name, Root: root, Strategy: []supervisor.Strategy{supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll}[r.IntN(3)]}
		at := len(tree)
		tree = append(tree, c)
		for range 1 + r.IntN(4) {
			names++
			m := group.Member{Name: fmt.Sprintf("s%d", names), Restart: []group.Restart{group.Permanent, group.Permanent, group.Transient, group.Temporary}[r.IntN(4)]}
			if depth > 0 && r.IntN(3) == 0 {
				m.Name, m.Group = fmt.Sprintf("g%d", names), true
				if m.Restart == group.Transient {
					m.Restart = group.Permanent
				}
				build(m.Name, false, depth-1)
			}
			c.Members = append(c.Members, m)
		}
		config(&c)
		tree[at] = c
	}
	build("root", true, 2)
	return tree
}

// policy is the policy of a member: its own budget never ends, and its delays are as good as none.
func policy(m group.Member) supervisor.Policy {
	if m.Restart == group.Temporary {
		return supervisor.NoRetry()
	}
	return supervisor.Policy{MaxAttempts: supervisor.Unlimited, Base: 1, Max: 1}
}

// In 10,000 random trees with random exits, stops and starts, the same members end and start, in the same order,
// and the same groups give up, as in the model of OTP.
func TestAsOTP(t *testing.T) {
	trees := 10_000
	if testing.Short() {
		trees = 1000
	}
	counts := map[string]int{}
	for seed := range uint64(trees) {
		judge(t, seed, counts)
	}
	for _, what := range []string{"crash", "exit 0", "stop", "start", "wake", "root gave up", "nested gave up", "ends", "starts"} {
		require.Greater(t, counts[what], trees/20, "too rare: %s of %v", what, counts)
	}
}

func judge(t *testing.T, seed uint64, counts map[string]int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	tree := randomTree(r, func(c *group.Config) {
		c.Intensity = supervisor.Intensity{Restarts: r.IntN(4), Window: 5*time.Second + time.Microsecond}
	})
	require.NoError(t, group.Validate(tree))
	ours, model := newSim(t, tree, policy, nil), newOTP(tree)
	var log []string
	compare := func() {
		t.Helper()
		ours.settle(100_000)
		for _, line := range model.trace {
			counts[strings.Fields(line)[0]+"s"]++
		}
		require.Equal(t, model.trace, ours.trace, "seed %d\n%s\n%s", seed, describe(tree), strings.Join(log, "\n"))
		require.Equal(t, !model.root.running, len(ours.spent) > 0 && ours.spent[len(ours.spent)-1] == "root")
		for _, name := range ours.names {
			state := group.ReportOf(ours.servers[name].life, &ours.servers[name].link).State
			require.Equal(t, model.of[name].running, state == group.StateReady, "seed %d, %s is %s\n%s\n%s", seed, name, state, describe(tree), strings.Join(log, "\n"))
		}
		ours.trace, model.trace = nil, nil
	}
	ours.begin(nil)
	model.start(model.root)
	compare()
	for range 3 + r.IntN(12) {
		gap := time.Duration(r.IntN(3000)) * time.Millisecond
		ours.now = ours.now.Add(gap)
		model.now = ours.now
		name := ours.names[r.IntN(len(ours.names))]
		x, c := ours.servers[name], model.of[name]
		var what string
		nested := len(ours.spent)
		switch n := r.IntN(10); {
		case n < 6 && c.running:
			if what = "crash"; r.IntN(3) == 0 {
				what = "exit 0"
				x.exit(0)
			} else {
				x.exit(1)
			}
			model.exit(c, what == "exit 0")
		case n < 8 && !c.stopped && !c.deleted && !c.resting:
			what = "stop"
			x.halt()
			model.stop(c)
		case c.stopped:
			what = "start"
			x.start()
			model.want(c)
		case c.resting:
			what = "wake"
			x.want()
			model.want(c)
		default:
			continue
		}
		counts[what]++
		log = append(log, what+" "+name)
		compare()
		for _, g := range ours.spent[nested:] {
			if g == "root" {
				counts["root gave up"]++
				return
			}
			counts["nested gave up"]++
		}
	}
}

func describe(tree []group.Config) string {
	var b strings.Builder
	for _, c := range tree {
		fmt.Fprintf(&b, "%s %s %d:", c.Name, c.Strategy, c.Intensity.Restarts)
		for _, m := range c.Members {
			fmt.Fprintf(&b, " %s(%s)", m.Name, m.Restart)
		}
		b.WriteString("\n")
	}
	return b.String()
}
