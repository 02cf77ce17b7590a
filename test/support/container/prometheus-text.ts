// Names of metrics and their labels in Prometheus' text format and in its queries.

/** Name of each series (with `_bucket` and the like) → its labels, each with its values. */
export type Series = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>

/** Reads metrics in the text format 0.0.4; families without a sample have no labels. */
export function seriesIn(text: string): Series {
  const series = new Map<string, Map<string, Set<string>>>()
  const of = (name: string) => {
    const labels = series.get(name) ?? new Map<string, Set<string>>()
    series.set(name, labels)
    return labels
  }
  for (const line of text.split('\n')) {
    const [, type] = /^# TYPE (\S+) /.exec(line) ?? []
    if (type !== undefined) of(type)
    const [, name, pairs = ''] = /^([a-z_0-9]+)(?:\{(.*)\})? \S+$/.exec(line) ?? []
    if (name === undefined) continue
    const labels = of(name)
    for (const [, label = '', value = ''] of pairs.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels.set(label, (labels.get(label) ?? new Set()).add(value))
    }
  }
  return series
}

/** A metric that a query asks for. */
export interface Selected {
  name: string
  /** `label` or `label="value"` of its braces. */
  matchers: { label: string; operator: string; value: string }[]
}

/** The metrics that a query of Prometheus asks for. */
export function selectedIn(query: string): Selected[] {
  const found = query.matchAll(/\b((?:vedette|probe|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g)
  return [...found].map(([, name = '', matcherText = '']) => ({
    name,
    matchers: [...matcherText.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)].map(
      ([, label = '', operator = '', value = '']) => ({ label, operator, value }),
    ),
  }))
}

/** The labels that a query groups by. */
export function groupedIn(query: string): string[] {
  return [...query.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels = '']) => labels.split(/, */))
}
