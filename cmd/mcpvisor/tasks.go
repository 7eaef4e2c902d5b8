package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/web/api"
)

type tasksCmd struct {
	List   tasksListCmd   `cmd:"" default:"1" help:"List them. Tasks are numbered; calls with a key have their key."`
	Wait   tasksWaitCmd   `cmd:"" help:"Wait for the call of a key, also one that was made before mcpvisor run was started again, and print its result."`
	Cancel tasksCancelCmd `cmd:"" help:"Ask the server of a task to cancel it. The server decides whether it does."`

	Resolve tasksResolveCmd `cmd:"" help:"Say what became of the call of a key whose outcome is unknown, after you have looked at what the server did: that it was not executed, or its result. Without either, show what the journal knows of it."`
}

type tasksListCmd struct{}

// keyPrincipal completes a key.
type keyPrincipal struct {
	Principal string `help:"Principal of the gateway that made the call, as mcpvisor tasks shows it behind \"of\" (default: none)." placeholder:"NAME"`
}

func (cmd *tasksListCmd) Run(inv *invocation, c *servers.Set) error {
	tasks, err := c.Tasks(inv.Context)
	if err != nil {
		return err
	}
	if tasks.Problem != "" {
		inv.Warn("", "the journal: %s", tasks.Problem)
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, tasks)
	}
	return inv.printTasks(&tasks, time.Now())
}

// printTasks prints the open tasks, and the calls of the journal that have no such task.
func (inv *invocation) printTasks(tasks *api.Tasks, now time.Time) error {
	if len(tasks.Tasks)+len(tasks.Journal) == 0 {
		inv.Note("no server executes a call as a task, and the journal knows no call")
		return nil
	}
	var rows [][]any
	open := map[mcpvisor.JournalKey]bool{}
	for _, t := range tasks.Tasks {
		open[t.JournalKey()] = t.Key != ""
		rows = append(rows, []any{t.Number, t.JournalKey(), mcpvisor.Qualify(t.Server, t.Tool), t.State, plaintext.Duration(now.Sub(t.Began)), t.Message})
	}
	for _, e := range tasks.Journal {
		if !open[e.JournalKey()] {
			rows = append(rows, []any{"", e.JournalKey(), mcpvisor.Qualify(e.Server, e.Tool), entryState(e), plaintext.Duration(now.Sub(e.Began)), entryMessage(e)})
		}
	}
	if err := inv.Table("TASK\tKEY\tTOOL\tSTATE\tAGE\tMESSAGE", rows); err != nil {
		return err
	}
	if tasks.Earlier > 0 {
		inv.Note("the journal knows %s before these", display.Count(tasks.Earlier, "call"))
	}
	return nil
}

// entryState is how far the call of an entry came, in one or two words.
func entryState(e mcpvisor.JournalEntry) string {
	switch {
	case e.State == mcpvisor.JournalEnded && e.Error == nil:
		return "result"
	case e.State == mcpvisor.JournalEnded:
		return string(e.Error.Kind)
	}
	return string(e.State)
}

// entryMessage says what became of the call of an entry.
func entryMessage(e mcpvisor.JournalEntry) string {
	switch {
	case e.State == mcpvisor.JournalSent && e.Open:
		return "sent, and not answered yet"
	case e.State == mcpvisor.JournalSent:
		return "sent, and not answered; see: mcpvisor tasks resolve"
	case e.State == mcpvisor.JournalNotRun:
		return "not executed, says " + display.Line(e.Resolved.By)
	case e.State == mcpvisor.JournalTask:
		return "no caller waits for it; see: mcpvisor tasks wait"
	case e.Error != nil:
		return e.Error.Text
	}
	return fmt.Sprintf("%d bytes", e.ResultBytes)
}

type tasksWaitCmd struct {
	Key string `arg:"" help:"Key of the call."`
	keyPrincipal
}

func (cmd *tasksWaitCmd) Run(inv *invocation, c *servers.Set) error {
	raw, err := c.WaitForTask(inv.Context, mcpvisor.JournalKey{Principal: cmd.Principal, Key: cmd.Key})
	if err != nil {
		return err
	}
	return inv.printResult(cmd.Key, raw, true)
}

type tasksResolveCmd struct {
	Key string `arg:"" help:"Key of the call."`
	keyPrincipal
	NotRun     bool   `help:"It was not executed: the next call with the key is made." xor:"what"`
	Result     string `help:"It was executed, and this is its result, as JSON of the protocol: the next call with the key returns it." xor:"what" placeholder:"JSON"`
	ResultFile string `help:"The same, in a file." xor:"what" placeholder:"FILE" complete:"file"`
	Seen       string `help:"When the entry that you have looked at was written, as this command shows it: a later one is not changed (default: the present one)." placeholder:"TIME"`
}

// maxResultFile is the longest file of a result, in bytes.
const maxResultFile = 48 << 20

func (cmd *tasksResolveCmd) Run(inv *invocation, c *servers.Set) error {
	request := control.ResolveRequest{JournalKey: mcpvisor.JournalKey{Principal: cmd.Principal, Key: cmd.Key}, NotRun: cmd.NotRun, Result: []byte(cmd.Result), By: operator()}
	if cmd.ResultFile != "" {
		var err error
		if request.Result, err = regularfile.Read(cmd.ResultFile, maxResultFile); err != nil {
			return cli.UsageError("the result cannot be read: %v", err)
		}
	}
	if len(request.Result) > 0 && !json.Valid(request.Result) {
		return cli.UsageError(`the result is not valid JSON; write for instance '{"content": [{"type": "text", "text": "…"}]}'`)
	}
	entry, err := c.JournalEntry(inv.Context, request.JournalKey)
	switch {
	case err != nil:
		return err
	case entry == nil:
		return cli.UsageError("the journal does not know the key %s; mcpvisor tasks lists those that it knows", request.JournalKey)
	case !cmd.NotRun && len(request.Result) == 0 && inv.JSON:
		return cli.PrintJSON(inv.Out, entry)
	case !cmd.NotRun && len(request.Result) == 0:
		return inv.Table("KEY\tTOOL\tSTATE\tWRITTEN\tARGUMENTS\tMESSAGE", [][]any{{entry.JournalKey(), mcpvisor.Qualify(entry.Server, entry.Tool), entryState(*entry),
			entry.Updated.Format(time.RFC3339Nano), display.Line(display.Shorten(string(entry.Arguments), 200)), entryMessage(*entry)}})
	}
	if request.Seen = entry.Updated; cmd.Seen != "" {
		if request.Seen, err = time.Parse(time.RFC3339Nano, cmd.Seen); err != nil {
			return cli.UsageError("--seen %q is not a time as this command shows it, such as %s", cmd.Seen, entry.Updated.Format(time.RFC3339Nano))
		}
	}
	if err := c.ResolveKey(inv.Context, request); err != nil {
		return err
	}
	next := "returns that result"
	if cmd.NotRun {
		next = "is made"
	}
	inv.Note("the next call with the key %s %s", request.JournalKey, next)
	return nil
}

// operator names the user of this command.
func operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return display.Line(display.Prefix(u.Username, 200))
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

type tasksCancelCmd struct {
	Task string `arg:"" help:"Number of the task, or key of the call."`
	keyPrincipal
}

func (cmd *tasksCancelCmd) Run(inv *invocation, c *servers.Set) error {
	// A number is a task if one has it, and a key otherwise.
	request := api.TaskRequest{Principal: cmd.Principal, Key: cmd.Task}
	n, err := strconv.ParseUint(cmd.Task, 10, 64)
	number := err == nil && cmd.Principal == ""
	if number {
		tasks, err := c.Tasks(inv.Context)
		if err != nil {
			return err
		}
		for _, t := range tasks.Tasks {
			if t.Number == n {
				request = api.TaskRequest{Number: n}
			}
		}
	}
	answer, err := c.CancelTask(inv.Context, request)
	if number && request.Number == 0 && errors.Is(err, mcpvisor.ErrInvalid) {
		return cli.UsageError("no task has the number %s, and no call this key; mcpvisor tasks lists both", cmd.Task)
	}
	if err != nil {
		return err
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, answer)
	}
	if !answer.Asked {
		inv.Note("the call has ended; nothing was sent")
		return nil
	}
	inv.Note("the server was asked to cancel it")
	return nil
}
