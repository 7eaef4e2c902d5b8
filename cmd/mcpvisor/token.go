package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/gateway"
)

type tokenCmd struct {
	Name    string        `arg:"" help:"Whose token it is, as in ci. Sessions and limits belong to a name."`
	Expires time.Duration `help:"How long the token is valid, as in 720h (default: until its line is removed)." placeholder:"DURATION"`
	Profile string        `help:"The profile of the configuration that the client gets, or several, separated by commas: it names one of them in its path (default: everything)." placeholder:"NAME"`
}

func (cmd *tokenCmd) Run(inv *invocation) error {
	if cmd.Name == "" || strings.ContainsAny(cmd.Name, " \t\r\n#") {
		return cli.UsageError("the name %q has a space or a #; choose another one", cmd.Name)
	}
	token := gateway.NewToken()
	hash := gateway.HashToken(token)
	if strings.ContainsAny(cmd.Profile, " \t\r\n#") {
		return cli.UsageError("the profile %q has a space or a #; name one of the configuration", cmd.Profile)
	}
	if cmd.Expires < 0 {
		return cli.UsageError("--expires %s is in the past; write for instance 720h", cmd.Expires)
	}
	fields, made := []string{cmd.Name, hash}, map[string]string{"name": cmd.Name, "token": token, "sha256": hash}
	if cmd.Profile != "" {
		fields, made["profile"] = append(fields, cmd.Profile), cmd.Profile
	}
	if cmd.Expires > 0 {
		expires := time.Now().Add(cmd.Expires).UTC().Format(time.RFC3339)
		fields, made["expires"] = append(fields, "expires="+expires), expires
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, made)
	}
	// The token itself is not among what a user appends to the file.
	if _, err := fmt.Fprintf(inv.Err, "the client sends this header; it is not shown again:\nAuthorization: Bearer %s\n", token); err != nil {
		return err
	}
	_, err := fmt.Fprintln(inv.Out, strings.Join(fields, " "))
	return err
}
