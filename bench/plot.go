package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// drawing is one picture: groups of bars, each group with its own scale.
type drawing struct {
	file, title, about string
	format             string // of the values
	groups             []barGroup
}

// barGroup is one figure of one row, of several clients.
type barGroup struct {
	title                string
	section, row, figure string
	clients              []string
}

func drawings() []drawing {
	peers := []string{clientSDK, clientMCPGo, clientTS, clientOurs, clientRaw, clientBare}
	perRestart := []string{clientSDK, clientMCPGo, clientOurs, clientStandby, clientBare, clientBareStandby}
	var throughput, results, footprint, recovery []barGroup
	for _, n := range []string{"1", "64", "512"} {
		throughput = append(throughput, barGroup{"stdio, callers: " + n, "echo", n, over(figureRate, clientSDK), peers})
	}
	throughput = append(throughput, barGroup{"Streamable HTTP, callers: 64", "http", "64", over(figureRate, clientSDK), peers})
	for _, size := range []string{"10 KB", "1 MB", "10 MB"} {
		results = append(results, barGroup{size, "size", size, figureRate, peers})
	}
	for _, f := range []struct{ title, figure string }{{"heap and stacks, KB", figureHeap}, {"resident memory, KB", figureRSS}, {"goroutines", figureGoroutines}} {
		footprint = append(footprint, barGroup{f.title, "idle", "500", f.figure, []string{clientSDK, clientMCPGo, clientOurs, clientBare}})
	}
	for _, g := range []struct{ title, row string }{{"the call in flight has failed, ms", "fast, the call failed"},
		{"ready again, ms", "fast, ready again"}, {"ready again, server-everything on node, ms", "server-everything, ready again"}} {
		recovery = append(recovery, barGroup{g.title, "recover", g.row, figureTime, perRestart})
	}
	return []drawing{
		{"calls", "Calls per second, go-sdk = 1", "Small echo, medians of paired rounds; longer is better.", "%.1f×", throughput},
		{"results", "Large results over stdio, MB per second", "One caller; longer is better.", "%.0f", results},
		{"footprint", "What an idle stdio server costs the client", "One of 500, after the handshake; shorter is better.", "%.1f", footprint},
		{"recovery", "After kill -9 of a server", "Peers are restarted by hand, at once; shorter is better.", "%.1f", recovery},
	}
}

// plot writes the drawings as SVG files. They need no fonts beyond the reader's own and no
// scripts, and follow the reader's choice of light or dark.
func plot(folder string) error {
	for _, d := range drawings() {
		svg, any := d.svg()
		if !any {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, "performance-"+d.file+".svg"), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const drawingStyle = `<style>
text { font: 12px sans-serif; fill: #1f2328 }
.paper { fill: #ffffff }
.title { font-size: 15px; font-weight: bold }
.group { font-weight: bold }
.sdk { fill: #8a8f98 } .mcpgo { fill: #5b93bd } .ts { fill: #b8924a } .ours { fill: #2f8552 } .more { fill: #74b98f } .bare { fill: #c9ccd1 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.paper { fill: #0d1117 }
.bare { fill: #4b525b } .ours { fill: #3fa76b } .more { fill: #25633f }
}
</style>
`

var classes = map[string]string{clientSDK: "sdk", clientMCPGo: "mcpgo", clientTS: "ts", clientOurs: "ours", clientRaw: "more", clientStandby: "more", clientBare: "bare", clientBareStandby: "bare"}

// svg draws the groups that were measured. It returns false if none was.
func (d drawing) svg() (string, bool) {
	const left, width, height = 150, 470, 18
	var s, values strings.Builder
	y := 52
	for _, g := range d.groups {
		longest := 0.0
		value := func(client string) float64 {
			if strings.HasSuffix(g.figure, " × "+client) {
				return 1
			}
			return figures[key(g.section, g.row, client, g.figure)]
		}
		for _, c := range g.clients {
			longest = max(longest, value(c))
		}
		if _, measured := figures[key(g.section, g.row, clientOurs, g.figure)]; !measured {
			continue
		}
		y += 12
		fmt.Fprintf(&s, `<text class="group" x="8" y="%d">%s</text>`+"\n", y+12, g.title)
		fmt.Fprintf(&values, " %s:", g.title)
		y += height + 2
		for _, c := range g.clients {
			v := value(c)
			if v == 0 {
				continue
			}
			name := c
			if c == clientBare {
				name = "bare floor"
			}
			text := fmt.Sprintf(d.format, v)
			if v > 0 && v < 0.1 {
				text = "< 0.1"
			}
			w := math.Max(v/longest*width, 1)
			fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/><text x="%.1f" y="%d">%s</text>`+"\n",
				left-8, y+12, name, classes[c], left, y, w, height-4, left+w+6, y+12, text)
			fmt.Fprintf(&values, " %s %s,", name, text)
			y += height
		}
	}
	total := y + 12
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 %d" role="img" aria-labelledby="title about">
<title id="title">%s</title>
<desc id="about">%s%s</desc>
%s<rect class="paper" width="700" height="%d" rx="6"/>
<text class="title" x="8" y="24">%s</text>
<text x="8" y="44">%s</text>
%s</svg>
`, total, d.title, d.about, strings.TrimSuffix(values.String(), ",")+".", drawingStyle, total, d.title, d.about, s.String()), values.Len() > 0
}
