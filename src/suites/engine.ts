// The engine of a check suite: the one that the monitor names, else the one that the project's own files ask
// for, else the default. Node wins over Bun, as a project may name both.
import { join } from 'node:path'
import { chooseEngine, type ChosenEngine, type EngineName } from '../contract/engine.ts'
import { jsonOf } from '../contract/exact-json.ts'
import { readUntrusted } from '../sandbox/untrusted-files.ts'

/** The engine, and what asked for it. */
export interface SuiteEngine extends ChosenEngine {
  /** Where the request comes from: `engineVersion`, a file's name, or `default`. */
  from: string
}

/** The monitor's options for its engine. */
export interface EngineOptions {
  engine?: EngineName | null | undefined
  engineVersion?: string | null | undefined
}

/** Version files are one line; a larger one is something else. */
const FILE_BYTES_MAX = 1_048_576

/** The engine for a project in `folders`, the nearest first; a text says why there is none. */
export async function suiteEngine(
  { engine, engineVersion }: EngineOptions,
  folders: readonly string[],
): Promise<SuiteEngine | string> {
  const version = engineVersion ?? ''
  if (version !== '') return chosen(engine ?? 'node', version, 'engineVersion')
  for (const name of engine == null ? (['node', 'bun'] as const) : [engine]) {
    for (const folder of folders) {
      for (const [file, read] of READERS[name]) {
        const found = read((await readUntrusted(join(folder, file), FILE_BYTES_MAX)) ?? '')
        if (found !== undefined) return chosen(name, found, file)
      }
    }
  }
  return chosen(engine ?? 'node', undefined, 'default')
}

function chosen(name: EngineName, version: string | undefined, from: string): SuiteEngine | string {
  const choice = chooseEngine(name, version)
  return typeof choice === 'string' ? `${from}: ${choice}` : { ...choice, from }
}

type Reader = (text: string) => string | undefined

const READERS: Readonly<Record<EngineName, readonly (readonly [string, Reader])[]>> = {
  node: [
    ['.node-version', plainVersion],
    ['.nvmrc', plainVersion],
    ['.tool-versions', (text) => toolVersion(text, /^(?:nodejs|node)\s+(\S+)/m)],
    ['package.json', (text) => manifestVersion(text, 'node')],
  ],
  bun: [
    ['.bun-version', plainVersion],
    ['.tool-versions', (text) => toolVersion(text, /^bun\s+(\S+)/m)],
    ['package.json', (text) => manifestVersion(text, 'bun')],
  ],
}

const VERSION = /^v?\d{1,5}(?:\.(?:\d{1,5}|x)){0,2}$/

/** A file that is one version. Names such as `lts/jod` mean another version every year, and are skipped. */
function plainVersion(text: string): string | undefined {
  const line = text
    .split('\n')
    .map((one) => one.replace(/#.*/, '').trim())
    .find((one) => one !== '')
  return line !== undefined && VERSION.test(line) ? line : undefined
}

function toolVersion(text: string, pattern: RegExp): string | undefined {
  const version = pattern.exec(text)?.[1]
  return version !== undefined && VERSION.test(version) ? version : undefined
}

function manifestVersion(text: string, name: EngineName): string | undefined {
  const { engines } = (jsonOf(text) ?? {}) as { engines?: Record<string, unknown> | null }
  const range = engines?.[name]
  return typeof range === 'string' ? lowestOf(range) : undefined
}

/**
 * The lowest version that a range of npm's kind allows, as far as major and minor go: `>=20.1 <23 || 24` →
 * `20.1`. Undefined where it allows everything, or is no such range.
 */
export function lowestOf(range: string): string | undefined {
  const lows = range.split('||').map(lowestOfAll)
  const known = lows.filter((one) => one !== undefined)
  if (known.length === 0 || known.length < lows.length) return undefined
  return known.sort(compare)[0]?.join('.')
}

type Low = [major: number, minor: number]

/** Of comparators that must all hold, the highest lower bound. */
function lowestOfAll(all: string): Low | undefined {
  // The end of `18 - 22` bounds it above only.
  const text = all.replace(/\s-\s.*$/, '').replaceAll(/([<>=~^])\s+/g, '$1')
  const bounds = text
    .trim()
    .split(/\s+/)
    .map(lowerBound)
    .filter((one) => one !== undefined)
  return bounds.sort(compare).at(-1)
}

function lowerBound(comparator: string): Low | undefined {
  const found = /^(>=|>|=|~|\^)?v?(\d{1,5})(?:\.(\d{1,5}|x|\*))?(?:\.[\w.*-]+)?$/i.exec(comparator)
  if (found === null) return undefined
  const [, sign, major = '', minor = ''] = found
  const isWhole = !/^\d/.test(minor)
  // Above the whole of 22 means from 23 on.
  if (sign === '>' && isWhole) return [Number(major) + 1, 0]
  return [Number(major), isWhole ? 0 : Number(minor)]
}

function compare(a: Low, b: Low): number {
  return a[0] - b[0] || a[1] - b[1]
}
