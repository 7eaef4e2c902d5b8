// Package top is the live terminal view of `mcpvisor top`: a table of servers, and for each
// of them its details, tools and stderr. It reads the API of package web and keeps no facts
// of its own.
//
// This package is large because all screens share one model, which the goroutine of the program owns:
// a file has one screen, or what several of them need.
package top

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Source is where the view reads. Its methods are called in goroutines of the view.
type Source interface { //nolint:interfacebloat // one method for each request of the view
	Status(ctx context.Context) (api.Status, error)
	Server(ctx context.Context, name string) (api.Server, error)
	Catalog(ctx context.Context, name string) (api.Tools, error)
	ToolUse(ctx context.Context) (api.ToolUse, error)
	Usage(ctx context.Context) (api.Usage, error)
	Calls(ctx context.Context, after uint64) (api.Calls, error)
	Clients(ctx context.Context) (api.Clients, error)
	Nodes(ctx context.Context) (api.Nodes, error)
	Summaries(ctx context.Context, after uint64) (api.EventSummaries, error)
	Restart(ctx context.Context, name string) error
	Events(ctx context.Context, after uint64, each func(api.Event) bool, kinds ...mcpvisor.EventKind) error
}

// Options describe what is shown.
type Options struct {
	// Title is the first thing in the first line, such as the path of the configuration.
	Title string
	// Text translates a text of the library; see the terms of the command line.
	Text func(string) string
	// Page is the address of the page for browsers; empty without one.
	Page string
	// Tool reads the definition of a tool, as table.ParseTools expects it. Call calls one, once,
	// and reports its progress from the goroutine of the call. Without them no tool can be called.
	Tool func(ctx context.Context, name string) (json.RawMessage, error)
	Call func(ctx context.Context, name string, arguments json.RawMessage, progress func(mcpvisor.Progress)) (json.RawMessage, error)
	// FormAdvice says how the user can answer a form that a tool needs; this view shows none.
	FormAdvice string
	// Now is the clock. Ages are differences to it.
	Now func() time.Time
}

// refreshInterval is how often the view reads when nothing happens. An event makes it read
// at once.
const refreshInterval = time.Second

// changes are the events after which the view reads.
var changes = slices.DeleteFunc(mcpvisor.EventKinds(), mcpvisor.EventKind.FromServer)

// Run shows the view until the user leaves it or the context ends.
func Run(ctx context.Context, source Source, o Options, in io.Reader, out io.Writer) error {
	return run(ctx, source, o, tea.WithInput(in), tea.WithOutput(out))
}

func run(ctx context.Context, source Source, o Options, options ...tea.ProgramOption) error {
	ctx, cancel := context.WithCancel(ctx)
	status, err := source.Status(ctx)
	if err != nil {
		cancel()
		return err
	}
	p := tea.NewProgram(newModel(ctx, source, o), append(options, tea.WithContext(ctx), tea.WithoutSignalHandler())...)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		// When the stream ends, the view continues: it reads every second.
		known := status.Stats.Events
		_ = source.Events(ctx, known-min(known, keptEvents), func(e api.Event) bool {
			p.Send(eventMsg{e, e.Seq <= known})
			return true
		}, changes...)
	}()
	final, err := p.Run()
	cancel()
	<-followed
	if m, ok := final.(*model); ok && m.lost != nil {
		return m.lost
	}
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}
