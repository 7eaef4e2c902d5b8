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
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
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
	Summaries(ctx context.Context, after uint64, servers ...string) (api.EventSummaries, error)
	Restart(ctx context.Context, name string, drain bool) error
	StopServer(ctx context.Context, name string, drain bool) error
	StartServer(ctx context.Context, name string) error
	Events(ctx context.Context, after uint64, each func(api.Event) bool, kinds ...mcpvisor.EventKind) error
}

// Options describe what is shown.
type Options struct {
	// Title is the first thing in the first line, such as the path of the configuration.
	Title string
	// Page is the address of the page for browsers; empty without one.
	Page string
	// Tool reads the definition of a tool, as table.ParseTools expects it. Call calls one, once. Without
	// them no tool can be called.
	Tool func(ctx context.Context, name string) (json.RawMessage, error)
	Call func(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)
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

// screen is what fills the terminal.
type screen int

const (
	screenServers screen = iota
	screenDetails
	screenTools
	screenStderr
	screenEvents
	screenCall
	screenAttention
	screenCalls
	screenClients
	screenNodes
	screenEntry // one of a list
	screenHelp
)

func (s screen) aboutAll() bool {
	return s == screenHelp || s == screenEvents || s == screenAttention || s == screenCalls || s == screenClients || s == screenNodes || s == screenEntry
}

// model is the state of the view. The goroutine of the program owns it; what is read in
// other goroutines arrives as messages.
type model struct {
	ctx    context.Context
	source Source
	opts   Options

	width, height int
	screen        screen
	back          screen // where esc leads from the help
	selected      string // name of the server
	top           int    // first line that is shown of a long screen
	follow        bool   // the end of stderr stays in view

	order  int // of the table, an index of orders
	toolAt int // the selected tool, an index of data.tools
	call   *call

	events     []api.Event
	summaries  summaries
	group      int    // of events that are shown, an index of groups
	single     bool   // events are shown one by one
	eventsOf   string // the server whose events are shown; empty for all
	eventsFrom screen // where esc leads from these

	picks    map[screen]pick // what is selected in lists
	opened   entry           // what screenEntry shows
	openedIn screen          // the list that it is of

	filter    textinput.Model
	filtering bool
	confirm   []string // servers; whether to restart them is asked
	stops     bool     // whether to stop them is
	flash     string   // what the last action did; until the next key

	data    data
	reading bool // a read is under way
	again   bool // another one is due after it
	lost    error
}

// data is what was read last.
type data struct {
	status api.Status
	use    api.ToolUse
	usage  api.Usage
	calls  api.Calls
	// summaries are those that have changed since the read before; only for the screen of events.
	summaries api.EventSummaries
	clients   api.Clients // only for their screen
	nodes     api.Nodes
	server    api.Server // of the selected server, on screens about one
	tools     api.Tools
}

type (
	tickMsg struct{} // the interval has passed
	// dataMsg is what was read for the screens of one server, or of all without a name.
	dataMsg struct {
		name string
		data data
		err  error
	}
	restartedMsg struct {
		text string
		err  error
	}
)

func newModel(ctx context.Context, source Source, o Options) *model {
	filter := textinput.New()
	filter.Prompt = "/"
	filter.CharLimit = 60
	if o.Now == nil {
		o.Now = time.Now
	}
	return &model{ctx: ctx, source: source, opts: o, width: 80, height: 24, filter: filter, follow: true, picks: map[screen]pick{}}
}

func (m *model) Init() tea.Cmd { return tea.Batch(m.read(), m.tick()) }

// tick returns after the interval, or at the end of the view.
func (m *model) tick() tea.Cmd {
	ctx := m.ctx
	return func() tea.Msg {
		timer := time.NewTimer(refreshInterval)
		defer timer.Stop()
		select {
		case <-timer.C:
			return tickMsg{}
		case <-ctx.Done():
			return nil
		}
	}
}

// read reads everything that the current screen shows. One read is under way at a time.
func (m *model) read() tea.Cmd {
	if m.reading {
		m.again = true
		return nil
	}
	m.reading, m.again = true, false
	ctx, source, name, on, summarized := m.ctx, m.source, m.selected, m.screen, m.summaries.seq
	if on.aboutAll() {
		name = ""
	}
	if on == screenEntry {
		on = m.openedIn
	}
	return func() tea.Msg {
		msg := dataMsg{name: name}
		d := &msg.data
		steps := []func() error{
			func() (err error) { d.status, err = source.Status(ctx); return err },
			func() (err error) { d.use, err = source.ToolUse(ctx); return err },
			func() (err error) { d.usage, err = source.Usage(ctx); return err },
			func() (err error) { d.nodes, err = source.Nodes(ctx); return err },
			func() (err error) {
				after := d.status.Stats.Calls // no ended calls
				if on == screenCalls {
					after = 0
				}
				d.calls, err = source.Calls(ctx, after)
				return err
			},
		}
		if on == screenClients {
			steps = append(steps, func() (err error) { d.clients, err = source.Clients(ctx); return err })
		}
		if on == screenEvents {
			steps = append(steps, func() (err error) { d.summaries, err = source.Summaries(ctx, summarized); return err })
		}
		if name != "" {
			steps = append(steps, func() (err error) { d.server, err = source.Server(ctx, name); return err },
				func() (err error) { d.tools, err = source.Catalog(ctx, name); return err })
		}
		for _, step := range steps {
			if msg.err = step(); errors.Is(msg.err, mcpvisor.ErrUnknownServer) { // it was removed meanwhile
				msg.err = nil
			}
			if msg.err != nil {
				break
			}
		}
		return msg
	}
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, tea.Batch(m.read(), m.tick())
	case eventMsg:
		m.note(msg.event)
		if !msg.known {
			return m, m.read()
		}
	case dataMsg:
		return m, m.take(msg)
	case restartedMsg:
		m.flash = msg.text
		if msg.err != nil {
			m.flash = msg.err.Error()
		}
		return m, m.read()
	case formMsg:
		return m, m.showForm(msg)
	case calledMsg:
		m.called(msg)
		return m, m.read()
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case tea.PasteMsg:
		return m, m.paste(msg)
	}
	return m, nil
}

// take takes what was read. A read that was about another server is thrown away.
func (m *model) take(msg dataMsg) tea.Cmd {
	m.reading = false
	if msg.err != nil && m.ctx.Err() == nil {
		m.lost = msg.err
		return tea.Quit
	}
	if msg.err == nil && (msg.name == "" || msg.name == m.selected) {
		if msg.name == "" {
			msg.data.server, msg.data.tools = m.data.server, m.data.tools
		}
		before := m.data
		m.data = msg.data
		m.summaries.take(&msg.data.summaries)
		m.keepSelection()
		m.keepTool(before)
		if m.screen.lists() {
			m.revealEntry()
		}
	}
	if m.again || m.screen == screenServers && m.selected != msg.name && msg.err == nil && len(m.servers()) > 0 {
		return m.read()
	}
	return nil
}

// servers returns the servers that the filter accepts, in the order of their rows.
func (m *model) servers() []*mcpvisor.ServerStatus { return serversOf(m.tree()) }

// matching returns the servers that the filter accepts, by name unless the user sorts them: a
// server in trouble keeps its row.
func (m *model) matching() (all []*mcpvisor.ServerStatus) {
	wanted := strings.ToLower(strings.TrimSpace(m.filter.Value()))
	for i := range m.data.status.Servers {
		s := &m.data.status.Servers[i]
		shown, _ := m.stateOf(s)
		if strings.Contains(strings.ToLower(s.Name+" "+shown+" "+string(s.State)+" "+m.placement(s.Name).Node), wanted) {
			all = append(all, s)
		}
	}
	if o := orders[m.order]; o.compare != nil {
		slices.SortStableFunc(all, func(a, b *mcpvisor.ServerStatus) int { return o.compare(m, a, b) })
	}
	return all
}

func (m *model) keepSelection() {
	all := m.servers()
	if m.index(all) < 0 && len(all) > 0 && m.screen == screenServers {
		m.selected = all[0].Name
	}
}

func (m *model) index(all []*mcpvisor.ServerStatus) int {
	return slices.IndexFunc(all, func(s *mcpvisor.ServerStatus) bool { return s.Name == m.selected })
}

// move selects the server that is n rows further, and reads what is shown of it.
func (m *model) move(n int) tea.Cmd {
	all := m.servers()
	if len(all) == 0 {
		return nil
	}
	m.selected = all[min(max(m.index(all), 0)+max(n, -max(m.index(all), 0)), len(all)-1)].Name
	return m.read()
}

func (m *model) show(s screen) tea.Cmd {
	if s != screenServers && !s.aboutAll() {
		if m.selected == "" {
			return nil
		}
		if m.data.server.Status.Name != m.selected { // of another server
			m.data.server, m.data.tools, m.toolAt = api.Server{}, api.Tools{}, 0
		}
	}
	if s == screenHelp {
		m.back = m.screen
	}
	if s.lists() && m.screen != screenEntry && m.screen != s {
		delete(m.picks, s)
	}
	m.screen, m.top, m.follow = s, 0, true
	if s.lists() {
		m.revealEntry()
	}
	m.keepSelection()
	return m.read()
}

// operate does something with servers, and says so.
func (m *model) operate(says string, do func(Source, context.Context, string) error, names ...string) tea.Cmd {
	ctx, source := m.ctx, m.source
	text := says + " " + strings.Join(names, ", ")
	if len(names) > 3 {
		text = fmt.Sprintf("%s %d servers", says, len(names))
	}
	return func() tea.Msg {
		for _, name := range names {
			if err := do(source, ctx, name); err != nil {
				return restartedMsg{err: err}
			}
		}
		return restartedMsg{text: text}
	}
}
