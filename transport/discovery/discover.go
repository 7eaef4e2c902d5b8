package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Discover lists everything that the server of a session declares as a capability.
// The package comment says which failures are errors and which are warnings.
func Discover(ctx context.Context, s transport.Session, server string, limits mcpvisor.Limits) (*catalog.Catalog, error) {
	found, _, err := DiscoverLists(ctx, s, server, limits, catalog.AllLists)
	return found, err
}

// DiscoverLists is Discover for some of the lists; the others are empty in the
// catalog. incomplete are the lists that could not be read to their end.
func DiscoverLists(ctx context.Context, s transport.Session, server string, limits mcpvisor.Limits, lists catalog.Lists) (
	found *catalog.Catalog, incomplete catalog.Lists, err error) {
	d := &discoverer{ctx: ctx, session: s, server: server, limits: limits, ttl: map[catalog.Lists]time.Duration{}}
	caps := s.Info().Capabilities
	if caps == nil {
		caps = &mcp.ServerCapabilities{}
	}
	if caps.Tools != nil && lists&catalog.ListTools != 0 {
		d.tools.checkSchema = s.CheckInputSchema
		d.list(toolsList, d.tools.add)
	}
	if caps.Resources != nil && lists&catalog.ListResources != 0 {
		d.list(resourcesList, d.addResource)
		d.list(templatesList, d.addTemplate)
	}
	if caps.Prompts != nil && lists&catalog.ListPrompts != 0 {
		d.list(promptsList, d.addPrompt)
	}
	if caps.Tools == nil && caps.Resources == nil && caps.Prompts == nil && lists&catalog.ListTools != 0 {
		d.warn(catalog.NameTools, `it declares neither tools, resources nor prompts, so it is asked for none; a server with tools declares "capabilities": {"tools": {}}`)
	}
	if err := d.err(); err != nil {
		return nil, lists, err
	}
	found = catalog.New(catalog.Catalog{Tools: d.tools.named(server), Resources: d.resources, Templates: d.templates,
		Prompts: d.prompts, Warnings: d.warnings, TTL: d.ttl})
	if lists&catalog.ListTools != 0 {
		s.UseTools(found.Tools, d.incomplete&catalog.ListTools != 0)
		found = found.Adapted(s.ToolSettings(), d.incomplete&catalog.ListTools == 0)
	}
	return found, d.incomplete, nil
}

// discoverer is one discovery. It belongs to the goroutine of DiscoverLists.
type discoverer struct {
	ctx     context.Context
	session transport.Session
	server  string
	limits  mcpvisor.Limits

	// What was read.
	tools     toolDecoder
	resources []mcpvisor.Resource
	templates []mcpvisor.ResourceTemplate
	prompts   []mcpvisor.Prompt
	ttl       map[catalog.Lists]time.Duration // the shortest of all pages
	warnings  []mcpvisor.Warning
	kept      int // bytes of pages and entries that the catalog keeps alive
	decoded   int // bytes that decoded members take in addition, estimated

	// What failed.
	asked      int           // lists that were requested
	failed     int           // of these, lists whose first page failed
	incomplete catalog.Lists // lists that were not read to their end
	lastErr    error         // of the last page that failed
	outage     error         // the last error of the connection to the server; nil: none
}

// err returns the error of the whole discovery. The death of the session comes first:
// it explains the other failures.
func (d *discoverer) err() error {
	const what = "listing what the server offers: %w"
	if cause := d.session.Cause(); cause != nil {
		return cause
	}
	switch {
	case d.ctx.Err() != nil:
		return fmt.Errorf(what, context.Cause(d.ctx))
	case d.outage != nil:
		return fmt.Errorf(what, d.outage)
	case d.asked > 0 && d.failed == d.asked:
		return fmt.Errorf("every list failed: %w", d.lastErr)
	}
	return nil
}

// maxWarning bounds the text of one warning, in bytes: it may quote the server.
const maxWarning = 1 << 10

// warn adds a warning about one list.
func (d *discoverer) warn(list string, format string, args ...any) {
	text := display.Shorten(fmt.Sprintf(format, args...), maxWarning)
	d.warnings = append(d.warnings, mcpvisor.Warning{List: list, Text: text})
}

// addResource decodes one resource and keeps it. Like addTemplate and addPrompt it returns
// why the entry is left out.
func (d *discoverer) addResource(item json.RawMessage, b *bounds) error {
	def := new(mcp.Resource)
	if err := b.decode(item, def); err != nil {
		return err
	}
	if def.URI == "" {
		return errors.New(`it has no "uri"`)
	}
	if err := b.resource(def); err != nil {
		return err
	}
	d.resources = append(d.resources, mcpvisor.Resource{Server: d.server, URI: def.URI, Definition: def, Raw: slices.Clip(item)})
	return nil
}

func (d *discoverer) addTemplate(item json.RawMessage, b *bounds) error {
	def := new(mcp.ResourceTemplate)
	if err := b.decode(item, def); err != nil {
		return err
	}
	if def.URITemplate == "" {
		return errors.New(`it has no "uriTemplate"`)
	}
	if err := b.template(def); err != nil {
		return err
	}
	d.templates = append(d.templates, mcpvisor.ResourceTemplate{Server: d.server, URITemplate: def.URITemplate, Definition: def, Raw: slices.Clip(item)})
	return nil
}

func (d *discoverer) addPrompt(item json.RawMessage, b *bounds) error {
	def := new(mcp.Prompt)
	if err := b.decode(item, def); err != nil {
		return err
	}
	if def.Name == "" {
		return errors.New(`it has no "name"`)
	}
	if err := b.prompt(def); err != nil {
		return err
	}
	d.prompts = append(d.prompts, mcpvisor.Prompt{Name: mcpvisor.Qualify(d.server, def.Name), Server: d.server,
		OriginalName: def.Name, Definition: def, Raw: slices.Clip(item)})
	return nil
}

// isOutage reports whether a request failed before the server handled it: it has no answer,
// the server deferred it, or a gateway in front of the server answered. An error of a
// transport reports a gateway by its method Outage.
func isOutage(err error) bool {
	var gateway interface{ Outage() bool }
	if errors.As(err, &gateway) && gateway.Outage() {
		return true
	}
	var e *mcpvisor.Error
	return errors.As(err, &e) && (e.Outcome != mcpvisor.OutcomeAnswered && e.Kind != mcpvisor.ErrRPC || e.Kind == mcpvisor.ErrUnavailable)
}

// isMethodNotFound reports whether the server does not know a method.
func isMethodNotFound(err error) bool {
	var rpc *jsonrpc.Error
	return errors.As(err, &rpc) && rpc.Code == jsonrpc.CodeMethodNotFound
}
