// The files of a suite's run as artifacts: results as JSON and JUnit XML, the HTML report, and what tests
// attached, such as traces and videos, under names that say whose they are.
import { lstat, mkdtemp, opendir, realpath, rename, writeFile } from 'node:fs/promises'
import { extname, join, relative, sep } from 'node:path'
import type { Readable } from 'node:stream'
import type { RunAttachment } from '../scripts/playwright/events.ts'
import { playwrightJunit } from '../scripts/playwright/junit.ts'
import {
  byUrgency,
  type PlaywrightReport,
  type TestAttempt,
  type TestReport,
} from '../scripts/playwright/report.ts'
import { leadsInside } from '../sandbox/untrusted-files.ts'

/** Where the files are, and where they go. */
export interface SuiteFiles {
  /** The folder of the run, in which nothing runs any more. */
  folder: string
  /** Where Playwright has written its HTML report, if it has. */
  htmlFolder: string
  report: PlaywrightReport
  /** Facts for the head of results.json. */
  facts: Record<string, unknown>
  attach(path: string): void
  withoutSecrets: (text: string) => string
  /** Bytes that the HTML report may have, to be packed. */
  reportBytesMax: number
  /** Little time is left: slow parts are left out. */
  isHurried: boolean
}

/** Attachments of tests; the result takes a hundred files in all. */
const ATTACHED_MAX = 90
const HTML_FILES_MAX = 5000
/** Of zlib: more takes twice the time for a tenth of the bytes. */
const REPORT_LEVEL = 3

/** Hands all of them over. Sentences say what is left out, and why. */
export async function attachSuiteFiles(files: SuiteFiles): Promise<string[]> {
  const { folder, report, facts } = files
  const target = await mkdtemp(join(folder, 'files-'))
  const notes: string[] = []
  const json = join(target, 'results.json')
  const junit = join(target, 'junit.xml')
  // At once, so that the receiver gets ready for them.
  files.attach(json)
  files.attach(junit)
  const named = await moveAttachments(files, target, notes)
  const html = await packHtml(files, target, notes)
  await writeFile(json, JSON.stringify({ ...facts, ...withNames(report, named) }, null, 1))
  await writeFile(junit, playwrightJunit(report))
  if (html !== undefined) files.attach(html)
  for (const path of named.values()) files.attach(path)
  return notes
}

type Named = ReadonlyMap<RunAttachment, string>

/** The report with names of artifacts where it had paths and bytes of attachments. */
function withNames(report: PlaywrightReport, named: Named): Record<string, unknown> {
  const attemptOf = (attempt: TestAttempt) => ({
    ...attempt,
    attachments: attempt.attachments.map((one) => {
      const file = named.get(one)
      const { name, contentType, bytes } = one
      return { name, contentType, bytes, file: file?.slice(file.lastIndexOf(sep) + 1) }
    }),
  })
  const tests = report.tests.map((test) => ({ ...test, attempts: test.attempts.map(attemptOf) }))
  return { ...report, tests }
}

/** What tests attached, moved to its name; what belongs to failures comes first. */
async function moveAttachments(
  { folder, report, withoutSecrets }: SuiteFiles,
  target: string,
  notes: string[],
): Promise<Map<RunAttachment, string>> {
  const named = new Map<RunAttachment, string>()
  const inside = await realpath(folder)
  let left = 0
  for (const test of byUrgency(report.tests)) {
    for (const attempt of test.attempts) {
      for (const attachment of attempt.attachments) {
        if (named.size >= ATTACHED_MAX) {
          left++
          continue
        }
        const path = join(target, nameFor(test, attempt, attachment, named.size, withoutSecrets))
        if (await moved(attachment, path, inside)) named.set(attachment, path)
      }
    }
  }
  if (left > 0) notes.push(`${left} attachments of tests: there were more than ${ATTACHED_MAX}`)
  return named
}

/** `03-log-in-chromium-retry1-trace.zip`. */
function nameFor(
  test: TestReport,
  { retry }: TestAttempt,
  file: RunAttachment,
  index: number,
  withoutSecrets: (text: string) => string,
) {
  const end = file.path === undefined ? endFor(file.contentType) : extname(file.path)
  const again = retry === 0 ? '' : `retry${retry}`
  const parts = [test.title, test.project, again, file.name.replace(/\.\w{1,5}$/, '')]
    .map(withoutSecrets)
    .map(slug)
  const number = String(index + 1).padStart(2, '0')
  return [number, ...parts.filter((one) => one !== '')].join('-') + slugEnd(end)
}

function slug(text: string): string {
  // Letters with marks become those without.
  const plain = text
    .normalize('NFKD')
    .replaceAll(/\p{M}+/gu, '')
    .replaceAll(/[^\w]+/g, '-')
  return plain
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 60)
    .toLowerCase()
}

function slugEnd(end: string): string {
  return /^\.\w{1,10}$/.test(end) ? end.toLowerCase() : ''
}

function endFor(contentType: string): string {
  const ends: Record<string, string> = {
    'text/plain': '.txt',
    'text/html': '.html',
    'text/markdown': '.md',
    'application/json': '.json',
    'image/png': '.png',
    'image/jpeg': '.jpg',
  }
  return ends[contentType.split(';')[0] ?? ''] ?? '.bin'
}

/** False when it is no file of the run, or gone. */
async function moved({ path, body }: RunAttachment, to: string, inside: string): Promise<boolean> {
  try {
    if (path === undefined) {
      if (body === undefined || body === '') return false
      await writeFile(to, Buffer.from(body, 'base64'), { flag: 'wx' })
      return true
    }
    const real = await realpath(path)
    if (!real.startsWith(inside + sep) || !(await lstat(real)).isFile()) return false
    await rename(real, to)
    return true
  } catch {
    return false
  }
}

/** The HTML report in one file; undefined where there is none, or it is too large. */
async function packHtml(
  { folder, htmlFolder, reportBytesMax, isHurried }: SuiteFiles,
  target: string,
  notes: string[],
): Promise<string | undefined> {
  // A link in its place would lead to files of others.
  if (!(await leadsInside(htmlFolder, folder))) return undefined
  const found = await filesBelow(htmlFolder)
  if (!found.some(({ path }) => path === 'index.html')) return undefined
  if (isHurried) {
    notes.push('playwright-report.zip: the run was ended before it was packed')
    return undefined
  }
  const bytes = found.reduce((sum, one) => sum + one.bytes, 0)
  if (bytes > reportBytesMax || found.length > HTML_FILES_MAX) {
    const has = `the report has ${bytes} bytes in ${found.length} files`
    const may = `it may have ${reportBytesMax} bytes in ${HTML_FILES_MAX} files`
    notes.push(`playwright-report.zip is left out: ${has}, and ${may}`)
    return undefined
  }
  const path = join(target, 'playwright-report.zip')
  try {
    await packInto(
      path,
      htmlFolder,
      found.map((one) => one.path),
    )
    return path
  } catch (error) {
    // Tests may have closed a file of it to the agent.
    notes.push(`playwright-report.zip: it cannot be packed (${(error as Error).message})`)
    return undefined
  }
}

async function packInto(path: string, folder: string, names: readonly string[]): Promise<void> {
  const { ZipFile } = await import('yazl')
  const { createWriteStream } = await import('node:fs')
  const { pipeline } = await import('node:stream/promises')
  const zip = new ZipFile()
  const output = zip.outputStream as Readable
  // The archiver reports files that it cannot read by itself, and its stream would never end.
  zip.on('error', (error: Error) => output.destroy(error))
  const written = pipeline(output, createWriteStream(path, { flags: 'wx' }))
  try {
    for (const name of names) {
      // Pictures, videos and traces are packed already.
      const isText = /\.(?:html|js|css|md|txt|json)$/.test(name)
      const packed = isText ? { compressionLevel: REPORT_LEVEL } : { compress: false }
      zip.addFile(join(folder, name), name, { mtime: new Date(0), ...packed })
    }
    zip.end()
  } catch (error) {
    // A name that no zip may have.
    output.destroy(error as Error)
  }
  await written
}

async function filesBelow(folder: string): Promise<{ path: string; bytes: number }[]> {
  const found: { path: string; bytes: number }[] = []
  const waiting = [folder]
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const entries = await opendir(at).catch(() => undefined)
    if (entries === undefined) continue
    for await (const entry of entries) {
      const path = join(at, entry.name)
      if (entry.isDirectory()) waiting.push(path)
      else if (entry.isFile()) {
        found.push({ path: relative(folder, path), bytes: (await lstat(path)).size })
      }
      if (found.length > HTML_FILES_MAX) return found
    }
  }
  return found
}
