package decisive

import (
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxMessage bounds the message that Lead makes, in bytes.
const maxMessage = 1000

// Lead returns a cause whose message begins with the decisive line of its Stderr, if there is
// one: "Error: Cannot find module '/x/server.js' (exit status 1)". Otherwise it returns c.
// starting says that the server has not been ready: what it wrote then is about its start, and
// a line counts that has no sign of a failure. c is not changed.
func Lead(c *supervisor.Cause, starting bool) *supervisor.Cause {
	if c == nil || len(c.Stderr) == 0 || c.Permanent {
		return c
	}
	needed := Failure
	switch c.Kind {
	case supervisor.CauseExit:
		if needed = Complaint; starting {
			needed = Plain
		}
	case supervisor.CauseSignal:
		if c.Signal == "killed" || c.Signal == "terminated" || c.Signal == "interrupt" || c.Signal == "hangup" {
			return c // another program has ended it
		}
		needed = Complaint
	case supervisor.CauseClosed, supervisor.CauseTimeout, supervisor.CauseProtocol:
	case supervisor.CauseHandshake: // the answer of the server says more, if there is one
	default:
		return c
	}
	text, w := Line(c.Stderr)
	if w < needed {
		return c
	}
	led := c.Clone()
	switch plain := c.Error(); {
	case strings.Contains(plain, text):
		return c
	case c.Kind == supervisor.CauseExit && c.ExitCode != nil:
		led.Message = text + fmt.Sprintf(" (exit status %d)", *c.ExitCode) + without(plain, fmt.Sprintf("server process ended with exit status %d", *c.ExitCode))
	case c.Kind == supervisor.CauseSignal && c.Signal != "":
		led.Message = text + " (signal: " + c.Signal + ")" + without(plain, "server process was ended by signal: "+c.Signal)
	default:
		led.Message = text + "; " + plain
	}
	led.Message = display.Shorten(led.Message, maxMessage)
	return led
}

// without returns what a message says beside one of its sentences, behind a semicolon.
func without(message, sentence string) string {
	before, after, _ := strings.Cut(message, sentence)
	if rest := strings.Trim(before+after, "; "); rest != "" {
		return "; " + rest
	}
	return ""
}
