package main

import (
	"fmt"
	"os"
	"strings"
)

// bar is one bar of the drawing.
type bar struct {
	group, client string
	ratio         float64
}

// bars are collected while the tables are printed.
var bars []bar

var colours = map[string]string{"go-sdk": "#8a8f98", "mcp-go": "#6aa0c8", "TypeScript SDK": "#c8a86a", "mcpvisor": "#3a8f5c", "mcpvisor raw": "#1f5c3a"}

// plot draws calls per second relative to go-sdk, as SVG. It needs no fonts
// beyond the reader's own and no scripts.
func plot(file string) error {
	const left, width, height, gap = 190, 420, 16, 14
	longest := 1.0
	for _, b := range bars {
		longest = max(longest, b.ratio)
	}
	var s strings.Builder
	y, group := 40, ""
	for _, b := range bars {
		if b.group != group {
			group = b.group
			y += gap
			fmt.Fprintf(&s, `<text x="8" y="%d" font-weight="bold">%s</text>`+"\n", y+12, b.group)
			y += height + 4
		}
		w := b.ratio / longest * width
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d">%.1f×</text>`+"\n",
			left-8, y+12, b.client, left, y, max(w, 1), height-2, colours[b.client], float64(left)+w+6, y+12, b.ratio)
		y += height
	}
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %d" font-family="sans-serif" font-size="12">
<rect width="720" height="%d" fill="#ffffff"/>
<text x="8" y="24" font-size="15">Calls per second, go-sdk = 1 (small echo; medians of paired rounds)</text>
%s</svg>
`, y+16, y+16, s.String())
	return os.WriteFile(file, []byte(svg), 0o644)
}
