package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/contents"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/params"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type callCmd struct {
	Name      string       `arg:"" help:"Qualified name, as in fs/list_directory, or alias of the tool." complete:"tool"`
	Arguments []string     `arg:"" optional:"" help:"key=value with a value of the type that the tool declares, key:=json, key=@file, with keys such as customer.name and lines[0].sku for parts; or one JSON object, or - to read it from standard input." placeholder:"key=value" complete:"argument"`
	Timeout   timeoutValue `help:"How long the call may take without progress (default: the server's own timeout, 60s)." placeholder:"DURATION"`
	NoCheck   bool         `help:"Send the arguments without comparing them with the parameters of the tool."`
	Key       string       `help:"Name of the call, for mcpvisor run --journal: a call with a name is executed at most once, and asked for again it returns the same result." placeholder:"KEY"`
}

func (cmd *callCmd) Run(inv *invocation) error {
	object, err := cmd.readObject(inv)
	if err != nil {
		return err
	}
	inv.AskForms()
	c, err := inv.OpenTool(cmd.Name)
	if err != nil {
		return err
	}
	defer c.Stop()
	if cmd.Key != "" && !c.Attached() {
		return cli.UsageError("--key needs mcpvisor run --journal FILE for this configuration, which is not running; start it, or leave out --key")
	}
	arguments, err := cmd.prepare(inv, c, object)
	if err != nil {
		return err
	}
	options := attach.CallOptions{Timeout: cmd.Timeout.Duration, Key: cmd.Key}
	if inv.Progress != nil {
		options.Progress = inv.Progress.Show
	}
	began := time.Now()
	raw, err := c.CallTool(inv.Context, cmd.Name, arguments, options)
	inv.Progress.Clear()
	if err != nil {
		return cmd.explained(c, err)
	}
	took := time.Since(began)
	err = inv.printResult(cmd.Name, raw, c.Attached())
	inv.Note("%s answered in %s", cmd.Name, plaintext.Took(took))
	return err
}

// explained returns the error of a call in the words of this command. It says why `mcpvisor
// run` does not have the server, and what raises a time that the command has set.
func (cmd *callCmd) explained(c *servers.Set, err error) error {
	server, _, qualified := mcpvisor.SplitName(cmd.Name)
	if qualified && c.Attached() && errors.Is(err, mcpvisor.ErrUnknownServer) {
		return c.UnknownServer(server)
	}
	report := cli.ReportOf(err)
	if before := report.Message; cmd.Timeout.Duration > 0 {
		if report.Message = strings.Replace(before, `raise "call" in "timeouts"`, "raise --timeout", 1); report.Message != before {
			return &cli.ExitError{Code: cli.ExitCode(err), Report: report}
		}
	}
	return err
}

// printResult prints the result of a call. It is an error if the tool reports one. attached
// says that the tool is one of `mcpvisor run`.
func (inv *invocation) printResult(tool string, raw json.RawMessage, attached bool) (err error) {
	server, _, _ := mcpvisor.SplitName(tool)
	var result contents.Result
	if err := json.Unmarshal(raw, &result); err != nil {
		return &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Outcome: mcpvisor.OutcomeAnswered, Server: server, Message: fmt.Sprintf("the result of %s cannot be read: %v", tool, err)}}
	}
	if inv.JSON {
		err = cli.PrintRaw(inv.Out, raw)
	} else {
		err = result.Print(inv.contents())
	}
	if err == nil && result.IsError {
		message := tool + " reports an error"
		if result.AsksUser() {
			message += inv.FormAdvice(attached)
		}
		err = &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Outcome: mcpvisor.OutcomeAnswered, Server: server, Message: message}}
	}
	return err
}

// contents returns the printer of answers. stdout that is no terminal gets texts unchanged.
func (inv *invocation) contents() *contents.Printer {
	file, isFile := inv.Out.(*os.File)
	return contents.NewPrinter(inv.Out, isFile && term.IsTerminal(int(file.Fd())))
}

type readCmd struct {
	Server string `arg:"" help:"Name of the server that has the resource." complete:"server"`
	URI    string `arg:"" help:"URI of the resource." name:"uri"`
}

func (cmd *readCmd) Run(inv *invocation) error {
	var res mcp.ReadResourceResult
	return inv.ask(cmd.Server, func(c *servers.Set) (json.RawMessage, error) { return c.ReadResource(inv.Context, cmd.Server, cmd.URI) }, &res, func() error {
		printer := inv.contents()
		for _, r := range res.Contents {
			if err := printer.PrintResource(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// ask asks a server, and prints the answer: as it is with --json, and else as show does when it is decoded.
func (inv *invocation) ask(server string, get func(*servers.Set) (json.RawMessage, error), decoded any, show func() error) error {
	inv.AskForms()
	c, err := inv.OpenServer(server)
	if err != nil {
		return err
	}
	defer c.Stop()
	raw, err := get(c)
	switch {
	case c.Attached() && errors.Is(err, mcpvisor.ErrUnknownServer):
		return c.UnknownServer(server)
	case err != nil:
		return err
	case inv.JSON:
		return cli.PrintIndented(inv.Out, raw)
	}
	if err := json.Unmarshal(raw, decoded); err != nil {
		return err
	}
	return show()
}

type promptCmd struct {
	Server    string   `arg:"" help:"Name of the server that has the prompt." complete:"server"`
	Name      string   `arg:"" help:"Name of the prompt."`
	Arguments []string `arg:"" optional:"" help:"Arguments, as key=value." placeholder:"key=value"`
}

func (cmd *promptCmd) Run(inv *invocation) error {
	args := map[string]string{}
	for _, pair := range cmd.Arguments {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return cli.UsageError("argument %q is not key=value; write for instance name=Ada", pair)
		}
		args[key] = value
	}
	var res mcp.GetPromptResult
	return inv.ask(cmd.Server, func(c *servers.Set) (json.RawMessage, error) {
		return c.GetPrompt(inv.Context, cmd.Server, cmd.Name, args)
	}, &res, func() error {
		for _, m := range res.Messages {
			fmt.Fprintf(inv.Out, "%s: ", display.Text(string(m.Role)))
			if err := contents.NewPrinter(inv.Out, true).Print([]mcp.Content{m.Content}); err != nil {
				return err
			}
		}
		return nil
	})
}

// jsonExample shows how arguments are written.
const jsonExample = "write for instance path=/tmp limit:=3, or '{\"path\": \"/tmp\", \"limit\": 3}'"

// readObject returns the arguments if they are one JSON object; nil if they are words such
// as key=value, which need the schema of the tool.
func (cmd *callCmd) readObject(inv *invocation) (json.RawMessage, error) {
	if len(cmd.Arguments) != 1 || params.IsPair(cmd.Arguments[0]) {
		for _, word := range cmd.Arguments {
			if !params.IsPair(word) {
				return nil, cli.UsageError("argument %q is not key=value; %s", word, jsonExample)
			}
		}
		return nil, nil
	}
	args := []byte(cmd.Arguments[0])
	if cmd.Arguments[0] == "-" {
		var err error
		if args, err = io.ReadAll(io.LimitReader(inv.In, control.MaxArguments)); err != nil {
			return nil, fmt.Errorf("the arguments cannot be read from standard input: %w", err)
		}
	}
	// null stands for no arguments.
	switch text := bytes.TrimSpace(args); {
	case !utf8.Valid(text): // JSON would replace the rest
		return nil, cli.UsageError("the arguments are not UTF-8; encode what is binary, for instance as base64, if the tool takes that")
	case !json.Valid(text) && cmd.Arguments[0] != "-" && !bytes.HasPrefix(text, []byte("{")):
		return nil, cli.UsageError("argument %q is not key=value; %s", cmd.Arguments[0], jsonExample)
	case !json.Valid(text):
		return nil, cli.UsageError("the arguments are not valid JSON; %s", jsonExample)
	case text[0] != '{' && string(text) != "null":
		return nil, cli.UsageError("the arguments are not a JSON object; %s", jsonExample)
	}
	return args, nil
}

// prepare returns the arguments to send: object, or what the words say. It is an error if the
// tool would not accept them. A tool that is not listed now is left to the call, whose error
// says why.
func (cmd *callCmd) prepare(inv *invocation, c *servers.Set, object json.RawMessage) (json.RawMessage, error) {
	kept, err := cmd.keptCall(inv, c)
	if err != nil {
		return nil, err
	}
	list, err := cmd.params(inv, c, kept == nil && object == nil && slices.ContainsFunc(cmd.Arguments, params.NeedsType))
	switch {
	case err != nil:
		return nil, err
	case kept != nil && object == nil: // the types are those of that call, whatever those of the tool are now
		if object, err = list.Like(kept.Arguments).Parse(cmd.Arguments); err != nil {
			err = cli.UsageError("%s was not called: the key %q belongs to a call of %s, made at %s, with other arguments: %v", cmd.Name, cmd.Key, mcpvisor.Qualify(kept.Server, kept.Tool), kept.Began.Format(time.RFC3339), err)
		}
		return object, err
	case kept != nil: // nothing is sent
		return object, nil
	case object == nil:
		if object, err = list.Parse(cmd.Arguments); err != nil {
			return nil, cmd.refused(inv, c, err.Error())
		}
	}
	if cmd.NoCheck {
		return object, nil
	}
	if problems := list.Check(inv.Context, object); len(problems) > 0 {
		return nil, cmd.refused(inv, c, strings.Join(problems, "; "))
	}
	return object, nil
}

// keptCall returns the call of the key that the journal has with its arguments; nil without one.
func (cmd *callCmd) keptCall(inv *invocation, c *servers.Set) (*mcpvisor.JournalEntry, error) {
	if cmd.Key == "" {
		return nil, nil //nolint:nilnil // as the comment says
	}
	kept, err := c.JournalEntry(inv.Context, mcpvisor.JournalKey{Key: cmd.Key})
	if err != nil || kept != nil && (kept.State == mcpvisor.JournalNotRun || len(kept.Arguments) == 0) {
		return nil, err
	}
	return kept, nil
}

// params returns the parameters of the tool; none if it is not listed. If they are needed, because
// words have no types without them, the error then says why it is not.
func (cmd *callCmd) params(inv *invocation, c *servers.Set, needed bool) (params.List, error) {
	for {
		list, listed, err := paramsOf(c.SentTool(inv.Context, cmd.Name))
		if err != nil || listed || !needed {
			return list, err
		}
		// The tool may be listed by the time of a call, so that is a dry one.
		_, err = c.CallTool(inv.Context, cmd.Name, nil, attach.CallOptions{Dry: true})
		if inv.Context.Err() != nil || !errors.Is(err, mcpvisor.ErrCanceled) {
			return list, cmd.explained(c, err)
		}
	}
}

// paramsOf returns the parameters of the first tool of a list. listed is false if it is empty.
func paramsOf(data json.RawMessage, err error) (list params.List, listed bool, _ error) {
	if err != nil {
		return params.List{}, false, err
	}
	tools, err := table.ParseTools(data)
	if err != nil || len(tools) == 0 {
		return params.New(nil), false, err
	}
	return params.New(tools[0].Definition.InputSchema), true, nil
}

// refused is the error about arguments that the tool would not accept. Its details are the
// parameters of the tool.
func (cmd *callCmd) refused(inv *invocation, c *servers.Set, problems string) error {
	list, _, err := paramsOf(c.Tool(inv.Context, cmd.Name)) // without secrets
	if err != nil {
		return err
	}
	server, _, _ := mcpvisor.SplitName(cmd.Name)
	report := cli.Report{Kind: cli.KindUsage, Outcome: mcpvisor.OutcomeNotSent, Server: server, Message: fmt.Sprintf("%s was not called: %s", cmd.Name, problems)}
	if len(list.Params) > 0 {
		var text strings.Builder
		if err := table.PrintParams(&text, list); err != nil {
			return err
		}
		report.Details = "\n" + text.String()
	}
	return &cli.ExitError{Code: cli.ExitUsage, Report: report}
}
