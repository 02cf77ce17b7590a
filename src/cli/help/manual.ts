// The pages of the manual by topic, as `vedette help <topic>` prints them. They lie beside the sources, in images as well.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DEFINITIONS } from '../../monitors/definitions.ts'
import type { Manual } from '../../process/command-line.ts'
import { plainText } from './plain-text.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** Pages whose topic is not the name of their folder. */
const NAMED: Readonly<Record<string, string>> = {
  'SECURITY.md': 'security',
  'docker/README.md': 'docker',
  'src/agent/redaction/README.md': 'scrubbing',
  'src/cli/import/README.md': 'coming-from',
  'src/monitors/suite/README.md': 'playwright',
  'src/platform/http/README.md': 'public-api',
}

/** Second names, which are not listed: of the folder, where the topic has another name, and of what a page has. */
const ALIASES = new Map([
  ['config', 'agent'],
  ['configuration', 'agent'],
  ['http', 'public-api'],
  ['import', 'coming-from'],
  ['metrics', 'agent'],
  ['redaction', 'scrubbing'],
  ['suite', 'playwright'],
  ['suites', 'playwright'],
])

/** The topic that a name of any case means: a type of monitor, a second name, or the topic itself. */
const topicOf = (name: string) =>
  DEFINITIONS.get(name.toUpperCase())?.path ?? ALIASES.get(name.toLowerCase()) ?? name.toLowerCase()

/** Finds the pages; `columns` is the width of the text. */
export function createManual(columns: number): Manual {
  const paths = [...globSync('src/**/README.md', { cwd: ROOT }), ...Object.keys(NAMED)]
  const topics = new Map(
    paths
      .filter((path) => existsSync(join(ROOT, path)))
      .map((path): [string, string] => [NAMED[path] ?? basename(dirname(path)), path])
      .toSorted(([one], [other]) => one.localeCompare(other)),
  )
  const topicAt = new Map([...topics].map(([topic, path]) => [path, topic]))
  const textOf = (topic: string) => readFileSync(join(ROOT, topics.get(topic) ?? ''), 'utf8')
  return {
    topics: () =>
      [...topics.keys()].map((topic) => [topic, /^# (.*)$/m.exec(textOf(topic))?.[1] ?? '']),
    page(name) {
      const topic = topicOf(name)
      const path = topics.get(topic)
      if (path === undefined) return undefined
      const linked = (href: string) => {
        const other = topicAt.get(join(dirname(path), href))
        return other === topic ? undefined : other
      }
      return plainText(textOf(topic), columns, linked)
    },
  }
}
