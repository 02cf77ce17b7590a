// The targets of blackbox_exporter are those of Prometheus' scrape jobs: static ones, after relabelling.
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import type { Finding, Path } from '../../agent/monitors-file/problems.ts'
import { fieldsOf, textOf } from './values.ts'

/** A target as blackbox_exporter gets it. */
export interface ScrapeTarget {
  /** In Prometheus' configuration. */
  path: Path
  /** As its series are called: the label `instance`. */
  name: string
  module: string
  target: string
  /** The labels that the configuration gives it, as tags. */
  tags: string[]
  interval: unknown
  timeout: unknown
}

type Labels = Record<string, string>

const isProbe = (job: Fields) =>
  job['metrics_path'] === '/probe' || (isFields(job['params']) && 'module' in job['params'])

const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** The targets of all jobs that scrape a probe, and what of these jobs cannot be read. */
export function readTargets(config: Fields): { targets: ScrapeTarget[]; problems: Finding[] } {
  const targets: ScrapeTarget[] = []
  const problems: Finding[] = []
  const global = fieldsOf(config['global'])
  for (const [index, job] of asList(config['scrape_configs']).entries()) {
    if (!isFields(job) || !isProbe(job)) continue
    const path = ['scrape_configs', index]
    for (const key of Object.keys(job).filter((one) => one.endsWith('_sd_configs'))) {
      const message = 'only targets of static_configs can be read; list them there'
      problems.push({ path: [...path, key], message, atKey: true })
    }
    const rules = asList(job['relabel_configs']).filter(isFields)
    const wrong = rules.findIndex((rule) => !isReadable(rule))
    if (wrong >= 0) {
      const place = [...path, 'relabel_configs', wrong]
      const message = `the action must be one of ${[...ACTIONS].join(', ')}, with a regular expression`
      problems.push({ path: place, message })
      continue
    }
    for (const [place, labels, tags] of labelledTargets(job, path)) {
      const kept = relabel(labels, rules)
      if (kept === undefined) continue
      const { __param_target: target, __param_module: module = '', instance } = kept
      if (target === undefined) {
        const message = 'reaches no probe: a rule of relabel_configs has to set __param_target'
        problems.push({ path: place, message })
        continue
      }
      targets.push({
        path: place,
        name: instance ?? target,
        module,
        target,
        tags,
        interval: job['scrape_interval'] ?? global['scrape_interval'] ?? '1m',
        timeout: job['scrape_timeout'] ?? global['scrape_timeout'] ?? '10s',
      })
    }
  }
  return { targets, problems }
}

function* labelledTargets(job: Fields, path: Path): Generator<[Path, Labels, string[]]> {
  const first: Labels = { job: textOf(job['job_name']) }
  for (const [key, values] of Object.entries(fieldsOf(job['params']))) {
    first[`__param_${key}`] = String(asList(values)[0])
  }
  for (const [group, given] of asList(job['static_configs']).entries()) {
    const config = fieldsOf(given)
    const pairs = Object.entries(fieldsOf(config['labels'])).map(([key, one]) => [key, String(one)])
    const labels = Object.fromEntries(pairs) as Labels
    const tags = pairs.map((pair) => pair.join(':'))
    for (const [index, target] of asList(config['targets']).entries()) {
      const place = [...path, 'static_configs', group, 'targets', index]
      yield [place, { ...first, ...labels, __address__: String(target) }, tags]
    }
  }
}

const ACTIONS: ReadonlySet<string> = new Set(['replace', 'keep', 'drop', 'labelmap', 'labeldrop'])

const ruleRegex = ({ regex = '(.*)' }: Fields) => new RegExp(`^(?:${String(regex)})$`, 's')

function isReadable(rule: Fields): boolean {
  try {
    ruleRegex(rule)
    return ACTIONS.has(textOf(rule['action'] ?? 'replace'))
  } catch {
    return false
  }
}

/** The labels after all rules; undefined where one drops the target. */
function relabel(given: Labels, rules: readonly Fields[]): Labels | undefined {
  let labels = { ...given }
  for (const rule of rules) {
    const action = textOf(rule['action'] ?? 'replace')
    const regex = ruleRegex(rule)
    const replacement = textOf(rule['replacement'] ?? '$1').replaceAll(/\$\{(\d+)\}/g, '$$$1')
    const separator = textOf(rule['separator'] ?? ';')
    const value = asList(rule['source_labels'])
      .map((name) => labels[String(name)] ?? '')
      .join(separator)
    if (action === 'labeldrop') {
      labels = Object.fromEntries(Object.entries(labels).filter(([name]) => !regex.test(name)))
    } else if (action === 'labelmap') {
      for (const [name, one] of Object.entries(labels)) {
        if (regex.test(name)) labels[name.replace(regex, replacement)] = one
      }
    } else if (action === 'replace') {
      if (regex.test(value))
        labels[String(rule['target_label'])] = value.replace(regex, replacement)
    } else if (regex.test(value) === (action === 'drop')) return undefined
  }
  return labels
}
