package supervisor_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

var update = flag.Bool("update", false, "rewrite docs/lifecycle.md from the transition table")

// TestLifecycleDocIsCurrent makes docs/lifecycle.md from the table and the
// comments of this package and compares. After a change, write it anew with
//
//	go test ./supervisor -run LifecycleDoc -update
func TestLifecycleDocIsCurrent(t *testing.T) {
	file := filepath.Join("..", "docs", "lifecycle.md")
	want := lifecyclePage(t)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	got = []byte(strings.ReplaceAll(string(got), "\r\n", "\n"))
	require.Equal(t, want, string(got), "docs/lifecycle.md is out of date; run: go test ./supervisor -run LifecycleDoc -update")
}

const intro = `<!-- Made by supervisor/page_test.go from supervisor/table.go. Do not edit; run: go test ./supervisor -run LifecycleDoc -update -->

# The lifecycle of one server

Every registered server has one lifecycle, from registration until it is
unregistered. It is decided in one place, the package ` + "`supervisor`" + `, as a pure
function: an event and the time go in, effects come out, and the supervising
actor carries them out. This page is made from the table that the code runs on.

Five rules hold beside the table:

- **Stale events are dropped and counted.** Each incarnation of a server has a
  number, its *epoch*, and each timer has a *token*. An event about any other
  epoch than the current one, or any other timer than the armed one, changes
  nothing. An event that has no row in the current state means nothing there.
- **Reaping comes before dialling.** A session that ended is reaped: its process
  group, pipes and connections are gone before the next epoch is dialled.
- **The retry budget is given back to those who have proven themselves**, that is
  after ` + "`StableAfter`" + ` in *ready*, or when somebody asks for a restart. Becoming
  ready alone gives nothing back. Sessions that end by themselves also count
  towards the restart intensity, where the policy sets one; that account is
  settled only by time, or by a restart on request.
- **A start that fails twice in the same way is not tried a third time.** A process
  that ends before the handshake, with the same exit status and the same words on
  stderr as the time before, is configured wrongly: its cause becomes permanent.
  This is judged of servers only that were never ready, and never under a policy
  that parks or has no limit.
- **A server is not asked sooner than it said** (` + "`Retry-After`" + `): the delay of a retry
  is the longer of the two.

Beware of one clash of words: the state *discovering* means listing tools,
resources, resource templates and prompts. It is not the ` + "`server/discover`" + ` request
of MCP 2026-07-28, which belongs to negotiation and happens while *connecting*.
`

func lifecyclePage(t *testing.T) string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("\n## The drawing\n\n```mermaid\n" + drawing(supervisor.Transitions()) + "```\n")
	b.WriteString("\n## The table\n\nRows of one state and event are tried from top to bottom; the first whose\ncondition holds is taken.\n\n")
	b.WriteString(grid(supervisor.Transitions()))

	words := glossary(t)
	for _, section := range []struct{ title, kind, lead string }{
		{"States", "State", "Where a server stands, as `Status` and the events show it."},
		{"Inputs", "InputKind", "What happened."},
		{"Conditions", "Guard", "What decides between rows."},
		{"Effects", "EffectKind", "What the supervising actor must do, in the order given."},
		{"Cause kinds", "CauseKind", "Why a session ended, or did not begin. A cause may be marked permanent:\nthen trying again cannot help, and no retry is spent on it."},
	} {
		require.NotEmpty(t, words[section.kind], "no constants of type %s found", section.kind)
		b.WriteString("\n## " + section.title + "\n\n" + section.lead + "\n\n| word | in Go | meaning |\n|---|---|---|\n")
		for _, w := range words[section.kind] {
			b.WriteString("| " + w.value + " | `" + w.name + "` | " + w.meaning + " |\n")
		}
	}
	return b.String()
}

// grid is the table in Markdown.
func grid(rows []supervisor.Transition) string {
	var b strings.Builder
	b.WriteString("| state | event | condition | next | effects, in order |\n|---|---|---|---|---|\n")
	for i, r := range rows {
		next := string(r.To)
		if r.To == r.From {
			next = "(" + next + ")"
		}
		var effects []string
		for _, e := range r.Do {
			effects = append(effects, string(e))
		}
		cells := []string{label(r.From), string(r.On), condition(rows, i), next, strings.Join(effects, ", ")}
		for i, c := range cells {
			if c == "" {
				cells[i] = "–"
			}
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

// drawing is the table as a Mermaid state diagram; events that lead from one
// state to another under the same condition share an arrow.
func drawing(rows []supervisor.Transition) string {
	type arrow struct{ from, to, when string }
	var order []arrow
	events := map[arrow][]string{}
	for i, r := range rows {
		from, when := string(r.From), condition(rows, i)
		if r.From == supervisor.StateNew {
			from = "[*]"
		}
		a := arrow{from, string(r.To), when}
		if events[a] == nil {
			order = append(order, a)
		}
		events[a] = append(events[a], string(r.On))
	}
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, a := range order {
		text := strings.Join(events[a], ", ")
		if a.when != "" {
			text += " [" + a.when + "]"
		}
		b.WriteString("    " + a.from + " --> " + a.to + ": " + text + "\n")
	}
	b.WriteString("    " + string(supervisor.StateStopped) + " --> [*]\n")
	return b.String()
}

// condition is the guard in words; the row that closes a group of guarded ones
// is taken "otherwise".
func condition(rows []supervisor.Transition, i int) string {
	if r := rows[i]; r.When == supervisor.GuardAlways && i > 0 && rows[i-1].From == r.From && rows[i-1].On == r.On {
		return "otherwise"
	}
	return string(rows[i].When)
}

func label(s supervisor.State) string {
	if s == supervisor.StateNew {
		return "(new)"
	}
	return string(s)
}
