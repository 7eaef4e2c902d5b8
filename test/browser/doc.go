// Package browser tests the page of package web in a real browser, Chromium's
// chromium-headless-shell. It is a module of its own, so that the driver of the browser is
// no dependency of the library. test/browser/run installs what the tests need and runs
// them. Without a browser they are skipped, and with MCPVISOR_BROWSER=must they fail.
package browser
