package headerauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/program"
)

// Source says where the headers come from. They are kept, for all sessions of a registration,
// until the server answers 401: then the source is asked once more, whatever the number of
// requests that were refused, and those requests are sent again, because the server did not carry
// them out. If the server refuses the new headers, too, the answer stands, and the source is asked
// again after a pause that grows from a second to a minute.
//
// A call that needs headers waits for them. If the source fails, the call fails with
// ErrUnavailable. The headers are secrets: no log, error or status shows them. They replace those of
// the same name in HTTP.Headers; the names that HTTP.Headers ignores, and Host, are ignored.
//
// A Source that was registered must not be changed.
type Source struct {
	// Command is a program and its arguments. It is run without a shell and without stdin, and
	// prints a JSON object of headers, or a token alone, which is sent as
	// "Authorization: Bearer TOKEN". Exit status 0 means success. After a failure the last line
	// of its stderr is part of the error, so it must hold no secret. Set either it or Fetch.
	Command []string
	// Dir is the working directory of the program. Default: that of the host.
	Dir string
	// Env is added to the environment of the host, which the program inherits.
	Env map[string]string
	// Fetch returns the headers. It must honour ctx; it is not called twice at once. A Source
	// with a Fetch equals only itself in [mcpvisor.ServerSpec.Equal].
	Fetch func(ctx context.Context) (map[string]string, error)
	// Timeout bounds one run of Command or Fetch. After it the program is killed, with its
	// process group on Unix. Default 10 s. A negative value is an error.
	Timeout time.Duration
}

// Validate implements mcpvisor.Auth.
func (s *Source) Validate() error {
	switch {
	case s == nil:
		return errors.New("headerauth: HTTP.Auth is a nil *headerauth.Source; set Command or Fetch, or leave HTTP.Auth nil")
	case (s.Fetch == nil) == (len(s.Command) == 0):
		return errors.New("headerauth: set either Command or Fetch")
	case s.Fetch == nil && strings.TrimSpace(s.Command[0]) == "":
		return errors.New("headerauth: the program of Command is empty; name the program to run")
	case s.Timeout < 0:
		return errors.New("headerauth: Timeout is negative; leave it 0 for the default")
	}
	return nil
}

// Equal implements mcpvisor.Auth.
func (s *Source) Equal(other mcpvisor.Auth) bool {
	o, ok := other.(*Source)
	if !ok || s == nil || o == nil || s == o {
		return ok && s == o
	}
	return s.Fetch == nil && o.Fetch == nil && slices.Equal(s.Command, o.Command) && s.Dir == o.Dir && maps.Equal(s.Env, o.Env) && s.Timeout == o.Timeout
}

// NewAuthorizer implements mcpvisor.Auth.
func (s *Source) NewAuthorizer(*mcpvisor.HTTP, func(text string)) (mcpvisor.Authorizer, error) {
	return &authorizer{source: *s}, nil
}

// fetch asks the source.
func (s *Source) fetch(ctx context.Context) (http.Header, error) {
	if s.Fetch != nil {
		headers, err := hostcall.Wait(ctx, "Fetch", nil, s.Fetch)
		if err != nil {
			return nil, err
		}
		return checkHeaders(headers)
	}
	output, err := program.Output(ctx, s.Command, s.Dir, s.Env)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", s.Command[0], err)
	}
	headers, err := parseOutput(output)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", s.Command[0], err)
	}
	return headers, nil
}

// parseOutput reads what a program printed. Its errors do not quote it.
func parseOutput(output []byte) (http.Header, error) {
	text := strings.TrimSpace(string(output))
	switch {
	case text == "":
		return nil, errors.New("it printed nothing; let it print a JSON object of headers, or a token")
	case !strings.HasPrefix(text, "{"):
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, errors.New("it printed neither a JSON object of headers nor a token, which is one word")
		}
		return http.Header{"Authorization": {"Bearer " + text}}, nil
	}
	var headers map[string]string
	if json.Unmarshal([]byte(text), &headers) != nil {
		return nil, errors.New(`it printed JSON that is not an object of strings, as {"Authorization": "Bearer …"} is`)
	}
	return checkHeaders(headers)
}

// checkHeaders returns headers in their canonical form. It fails without one, and for one that
// would break the request.
func checkHeaders(headers map[string]string) (http.Header, error) {
	checked := http.Header{}
	for name, value := range headers {
		probe := mcpvisor.HTTP{URL: "http://localhost", Headers: map[string]string{name: value}}
		if (mcpvisor.ServerSpec{Name: "s", HTTP: &probe}).Validate() != nil {
			return nil, errors.New("the name or the value of a header is not usable; names hold letters, digits and '-', values no line breaks")
		}
		switch name = http.CanonicalHeaderKey(name); {
		case name == "Host", name == "Accept", name == "Content-Type", name == "Content-Length", name == "Last-Event-Id", strings.HasPrefix(name, "Mcp-"):
		default:
			checked[name] = []string{value}
		}
	}
	if len(checked) == 0 {
		return nil, errors.New("there is no header in what it returned")
	}
	return checked, nil
}
