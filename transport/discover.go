package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Discover lists what a session's server offers: the lists that it declares as
// capabilities, all pages of each. A list that the server answers badly, or an
// entry that cannot be read, costs itself and a warning. The death of the
// session, the end of ctx, the failure of every list that was asked for, and a
// list that something on the way kept from the server are errors: trying again
// mends those, and a catalog without them would pass for the whole.
func Discover(ctx context.Context, s Session, server string, limits mcpvisor.Limits) (*catalog.Catalog, error) {
	catalog, _, err := DiscoverLists(ctx, s, server, limits, catalog.AllLists)
	return catalog, err
}

// DiscoverLists is Discover for some of the lists; the others are empty in the
// catalog. It tells which of them could not be read to their end.
func DiscoverLists(ctx context.Context, s Session, server string, limits mcpvisor.Limits, lists catalog.Lists) (*catalog.Catalog, catalog.Lists, error) {
	d := &discovery{ctx: ctx, session: s, limits: limits, ttl: map[catalog.Lists]time.Duration{}}
	caps := s.Info().Capabilities
	if caps == nil {
		caps = &mcp.ServerCapabilities{}
	}
	tools := toolList{bounds: &d.bounds}
	var resources []mcpvisor.Resource
	var templates []mcpvisor.ResourceTemplate
	var prompts []mcpvisor.Prompt
	if marked, ok := s.(interface{ checksMarks() bool }); ok && marked.checksMarks() {
		tools.check = checkHeaderParams
	}
	if caps.Tools != nil && lists&catalog.ListTools != 0 {
		d.list("tools/list", "tools", tools.add)
	}
	if caps.Resources != nil && lists&catalog.ListResources != 0 {
		d.list("resources/list", "resources", func(item json.RawMessage) error {
			def := new(mcp.Resource)
			if err := d.decodeItem(item, def, &def.URI, "uri"); err != nil {
				return err
			}
			if err := d.bounds.resource(def); err != nil {
				return err
			}
			resources = append(resources, mcpvisor.Resource{Server: server, URI: def.URI, Definition: def})
			return nil
		})
		d.list("resources/templates/list", "resourceTemplates", func(item json.RawMessage) error {
			def := new(mcp.ResourceTemplate)
			if err := d.decodeItem(item, def, &def.URITemplate, "uriTemplate"); err != nil {
				return err
			}
			if err := d.bounds.template(def); err != nil {
				return err
			}
			templates = append(templates, mcpvisor.ResourceTemplate{Server: server, URITemplate: def.URITemplate, Definition: def})
			return nil
		})
	}
	if caps.Prompts != nil && lists&catalog.ListPrompts != 0 {
		d.list("prompts/list", "prompts", func(item json.RawMessage) error {
			def := new(mcp.Prompt)
			if err := d.decodeItem(item, def, &def.Name, "name"); err != nil {
				return err
			}
			if err := d.bounds.prompt(def); err != nil {
				return err
			}
			prompts = append(prompts, mcpvisor.Prompt{Name: mcpvisor.Qualify(server, def.Name), Server: server,
				OriginalName: def.Name, Definition: def})
			return nil
		})
	}
	if c := s.Cause(); c != nil {
		return nil, lists, c
	}
	if ctx.Err() != nil {
		return nil, lists, fmt.Errorf("listing what the server offers: %w", context.Cause(ctx))
	}
	if d.outage != nil {
		return nil, lists, fmt.Errorf("listing what the server offers: %w", d.outage)
	}
	if d.asked > 0 && d.failed == d.asked {
		return nil, lists, fmt.Errorf("every list failed: %w", d.lastErr)
	}
	if n := d.bounds.cuts; n > 0 {
		d.warn("%d titles or descriptions were too long (%d and %d bytes are taken) and are cut", n, maxTitle, maxDescription)
	}
	if n := d.bounds.drops; n > 0 {
		d.warn("%d members of entries (_meta, icons or annotations) were too large and are left out; %d values and %d bytes are taken of each",
			n, memberBounds.Elements, memberBounds.Bytes)
	}
	catalog := catalog.NewCatalog(tools.tools(server), resources, templates, prompts, d.warnings)
	catalog.TTL = d.ttl
	return catalog, d.broken, nil
}

type discovery struct {
	ctx      context.Context
	session  Session
	limits   mcpvisor.Limits
	kept     int // bytes, beside bounds.decoded
	asked    int
	failed   int
	lastErr  error
	broken   catalog.Lists
	outage   error // of the way to the server, not of its answer
	warnings []string
	bounds   bounds
	ttl      map[catalog.Lists]time.Duration
}

func (d *discovery) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// list follows one list through its pages.
func (d *discovery) list(method, member string, add func(json.RawMessage) error) {
	d.asked++
	seen := map[string]bool{}
	items, leftOut := 0, 0
	defer func() {
		if more := leftOut - catalog.WarningExamples; more > 0 {
			d.warn("%s: %d more entries are left out", method, more)
		}
	}()
	var cursor *string
	for number := 1; ; number++ {
		var params json.RawMessage
		if cursor != nil {
			params, _ = json.Marshal(map[string]string{"cursor": *cursor})
		}
		raw, err := d.session.Request(d.ctx, Request{Method: method, Params: params})
		var p page
		if err == nil {
			p, err = readPage(raw, member)
		}
		if err != nil {
			d.listFailed(method, number, err)
			return
		}
		if list := listOf[method]; p.ttl > 0 && (d.ttl[list] == 0 || p.ttl < d.ttl[list]) {
			d.ttl[list] = p.ttl
		}
		// What is kept of a page may keep all of it, so all of it counts. Of one
		// that is too long as a whole, or is not mostly the list, entries are copied for
		// as long as there is room.
		whole := len(raw) <= d.limits.MaxCatalogBytes-d.kept-d.bounds.decoded && len(p.items) >= len(raw)/2
		if whole {
			d.kept += len(raw)
		}
		full, long := false, false
		jsonscan.EachItem(p.items, func(item []byte) bool {
			if full = items >= d.limits.MaxItems; full || d.ctx.Err() != nil {
				return false
			}
			if long = d.kept+d.bounds.decoded > d.limits.MaxCatalogBytes; long {
				return false
			}
			if !whole {
				if long = len(item) > d.limits.MaxCatalogBytes-d.kept-d.bounds.decoded; long {
					return false
				}
				d.kept += len(item)
				item = bytes.Clone(item)
			}
			items++
			if err := add(item); err != nil {
				if leftOut++; leftOut <= catalog.WarningExamples {
					d.warn("%s: entry %d is left out: %v", method, items, err)
				}
			}
			return true
		})
		if cursor = p.cursor; cursor != nil && !whole { // it is remembered, below
			d.kept += len(*cursor)
			long = long || d.kept > d.limits.MaxCatalogBytes
		}
		switch {
		case full:
			d.warn("%s: more than %d entries; the rest is left out (raise Limits.MaxItems to take more)", method, d.limits.MaxItems)
			return
		case long:
			d.warn("%s: the lists are longer than %d bytes together; the rest is left out (raise Limits.MaxCatalogBytes to take more)", method, d.limits.MaxCatalogBytes)
			return
		case p.lost:
			d.warn("%s: the cursor on page %d is no text; the rest is left out", method, number)
			return
		case cursor == nil:
			return
		case seen[*cursor]:
			d.warn("%s: the server repeats its cursor; stopped after %d pages", method, number)
			return
		case number >= d.limits.MaxPages:
			d.warn("%s: more than %d pages; the rest is left out (raise Limits.MaxPages to take more)", method, d.limits.MaxPages)
			return
		}
		seen[*cursor] = true
	}
}

// listOf is the list that a method belongs to.
var listOf = map[string]catalog.Lists{"tools/list": catalog.ListTools, "prompts/list": catalog.ListPrompts,
	"resources/list": catalog.ListResources, "resources/templates/list": catalog.ListResources}

// listFailed notes a list, or its later pages, as missing. "Method not found"
// on a list that the capability only implies, such as templates, is no news.
func (d *discovery) listFailed(method string, page int, err error) {
	if code, ok := ErrorCode(err); ok && code == sdkrpc.CodeMethodNotFound {
		if method == "resources/templates/list" {
			d.asked--
			return
		}
	}
	if page == 1 {
		d.failed++
	}
	d.broken |= listOf[method]
	d.lastErr = fmt.Errorf("%s: %w", method, err)
	if isOutage(err) {
		d.outage = d.lastErr
	}
	d.warn("%s: page %d failed: %v", method, page, err)
}

// isOutage reports whether a request failed on the way: it has no answer, it
// was put off, or a gateway answered instead of the server.
func isOutage(err error) bool {
	var f *httpError
	if errors.As(err, &f) && f.status >= http.StatusInternalServerError {
		return true
	}
	var e *mcpvisor.Error
	return errors.As(err, &e) && (e.Outcome != mcpvisor.OutcomeAnswered || e.Kind == mcpvisor.KindUnavailable)
}

func (d *discovery) decodeItem(item json.RawMessage, into any, key *string, member string) error {
	item, err := d.bounds.slim(item)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(item, into); err != nil {
		return err
	}
	if *key == "" {
		return fmt.Errorf("it has no %q", member)
	}
	return nil
}
