// Metrics whose values are read for each scrape, so that counting costs nothing in between.
import type { Counter, Gauge, Registry } from 'prom-client'

/** A metric by its help; `read` gives its value, or those of each value of `label`. */
type Scraped =
  | [help: string, read: () => number]
  | [help: string, read: () => Iterable<readonly [string, number]>, label: string]

/** Registers gauges or counters by their names, without `vedette_`. */
export function registerScraped(
  registry: Registry,
  Kind: typeof Counter | typeof Gauge,
  metrics: Readonly<Record<string, Scraped>>,
): void {
  for (const [name, [help, read, label]] of Object.entries(metrics)) {
    const metric = new Kind({
      name: `vedette_${name}`,
      help,
      labelNames: label === undefined ? [] : [label],
      collect(this: Counter | Gauge) {
        this.reset()
        const values = read()
        if (typeof values === 'number') this.inc(values)
        else for (const [key, value] of values) this.inc({ [label as string]: key }, value)
      },
      registers: [],
    })
    registry.registerMetric(metric)
  }
}
