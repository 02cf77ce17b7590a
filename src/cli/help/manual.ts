// The pages of the manual by topic, as `vedette help <topic>` prints them. They lie beside the sources, in images as well.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Manual } from '../../process/command-line.ts'
import { plainText } from './plain-text.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** Pages whose topic is not the name of their folder. */
const NAMED: Readonly<Record<string, string>> = {
  'SECURITY.md': 'security',
  'docker/README.md': 'docker',
  'src/cli/import/README.md': 'coming-from',
  'src/monitors/suite/README.md': 'playwright',
  'src/platform/http/README.md': 'public-api',
}

/** Second names, which are not listed: of the folder, where the topic has another name. */
const ALIASES: Readonly<Record<string, string>> = {
  http: 'public-api',
  import: 'coming-from',
  suite: 'playwright',
}

/** Finds the pages; `columns` is the width of the text. */
export function createManual(columns: number): Manual {
  const paths = [...globSync('src/**/README.md', { cwd: ROOT }), ...Object.keys(NAMED)]
  const topics = new Map(
    paths
      .filter((path) => existsSync(join(ROOT, path)))
      .map((path): [string, string] => [NAMED[path] ?? basename(dirname(path)), path])
      .toSorted(([one], [other]) => one.localeCompare(other)),
  )
  const textOf = (topic: string) => readFileSync(join(ROOT, topics.get(topic) ?? ''), 'utf8')
  return {
    topics: () =>
      [...topics.keys()].map((topic) => [topic, /^# (.*)$/m.exec(textOf(topic))?.[1] ?? '']),
    page(name) {
      const topic = Object.hasOwn(ALIASES, name) ? (ALIASES[name] as string) : name
      return topics.has(topic) ? plainText(textOf(topic), columns) : undefined
    },
  }
}
