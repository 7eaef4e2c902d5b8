package browser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// page is a tab of a browser. At the end of a test it checks that the page has violated no
// Content-Security-Policy, has thrown nothing, and has sent no request to another origin.
type page struct {
	t      *testing.T
	ctx    context.Context
	origin string

	mu       sync.Mutex
	problems []string // guarded by mu
	allowed  []string // guarded by mu; problems that the test provokes
}

// shared is the browser, which starts with the first page and shows all pages.
var shared struct {
	once sync.Once
	ctx  context.Context
	end  func()
}

func startBrowser(t *testing.T) context.Context {
	t.Helper()
	shared.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(patience))
		ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(ctx)
		shared.ctx, shared.end = ctx, func() {
			_ = chromedp.Cancel(ctx)
			end()
			cancel()
		}
		require.NoError(t, chromedp.Do(ctx))
	})
	return shared.ctx
}

// newPage opens an address in a new tab. The address must begin with origin.
func newPage(t *testing.T, origin, path string) *page {
	t.Helper()
	p := newTab(t, origin)
	p.open(path)
	return p
}

// newTab opens a tab that shows nothing yet, and shares nothing with others.
func newTab(t *testing.T, origin string) *page {
	t.Helper()
	ctx, end := chromedp.NewContext(startBrowser(t), chromedp.WithNewBrowserContext())
	p := &page{t: t, ctx: ctx, origin: origin}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Empty(t, p.problems, "what the browser reports")
	})
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == "error" || m.Type == "warning" || strings.Contains(m.Text, "Content Security Policy") {
				p.report(m.String())
			}
		}
	}()
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			if url := e.Request.URL; !strings.HasPrefix(url, p.origin+"/") && !strings.HasPrefix(url, "data:") && url != "about:blank" {
				p.report("request to " + url)
			}
		}
	}))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	return p
}

func (p *page) report(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.allowed {
		if strings.Contains(problem, part) {
			return
		}
	}
	p.problems = append(p.problems, problem)
}

// allow ignores problems that the test provokes.
func (p *page) allow(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, part)
}

// first has the browser run a script before those of each page that it loads from now on.
func (p *page) first(script string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	require.NoError(p.t, err)
}

// open loads the page and waits until it shows the servers.
func (p *page) open(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.origin+path))
	p.wait(`document.documentElement.dataset.loaded === "true" || location.hash.startsWith("#/s/") && document.querySelector("#detail .facts")`)
}

// place goes to a place of the page, as a link to it does.
func (p *page) place(address string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`(location.hash = %q, true)`, "#/"+address))
	path, _, _ := strings.Cut(address, "?")
	if path, _, _ = strings.Cut(path, "/"); path == "s" {
		path = "servers"
	}
	p.wait(fmt.Sprintf(`(document.querySelector("#places [aria-current]").hash === %q || %q === "nowhere")`, "#/"+path, path))
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, actions...))
}

// media shows the page in a colour scheme and in a width.
func (p *page) media(scheme string, width int64) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	require.NoError(p.t, err)
	_, err = chromedp.Call(p.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	require.NoError(p.t, err)
}

// press types keys where the focus is, as a user does.
func (p *page) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// shortcut types one character. The browser makes the character of the key itself, so that
// it is not typed if the page has handled the key.
func (p *page) shortcut(key string) {
	p.t.Helper()
	for _, typ := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		event := input.DispatchKeyEventParams{Type: typ, Key: key}
		if typ == input.DispatchKeyEventTypeKeyDown {
			event.Text = key
		}
		_, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, event)
		require.NoError(p.t, err)
	}
}

// wait waits until an expression is true in the page.
func (p *page) wait(expression string) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		done, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`Boolean(`+expression+`)`)) // fails while a page is loaded
		if err == nil && done {
			return
		}
		if time.Now().After(deadline) {
			text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
			require.Fail(p.t, "the page did not come to this", "%s (%v)\nthe page shows:\n%s", expression, err, text)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// eval evaluates an expression, which may be a promise, in the page.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return value
}

// has waits until an element shows a text.
func (p *page) has(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`document.querySelector(%q)?.innerText.includes(%q)`, selector, text))
}
