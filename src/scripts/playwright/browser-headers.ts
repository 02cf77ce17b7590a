// Headers that browsers of a run sent and received, from what the launcher keeps of Chromium's log of network events
// (NetLog): of all pages and workers, whatever program steers the browser. One that is killed may leave out the last.
import { opendir } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import { NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import { followLines } from '../../sandbox/lines.ts'
import { leadsInside, openUntrusted } from '../../sandbox/untrusted-files.ts'
import type { HeaderListener } from './observed-headers.ts'

const headers = z.object({ headers: z.array(z.string()) })
const loggedEvent = z.object({
  params: z.union([
    headers,
    z.object({ request_headers: headers }).transform((one) => one.request_headers),
  ]),
})

/** Chromium takes heads of up to 256 KiB. */
const LINE_BYTES_MAX = 2_097_152
/** Of all logs of a run, as of its events. */
const BYTES_MAX = 134_217_728
/** A pipe and a log for each start of a browser. */
const ENTRIES_MAX = 4_000
const ALL_WRITTEN = AbortSignal.abort()

/**
 * Hands the headers in the logs in `logs` to a listener, when the run in `folder` has ended. The logs are untrusted: user
 * code can write them as well.
 */
export async function readBrowserLogs(
  logs: string,
  folder: string,
  listener: HeaderListener,
): Promise<void> {
  const entries = await opendir(logs).catch(() => undefined)
  let [left, count] = [BYTES_MAX, 0]
  for await (const { name } of entries ?? []) {
    if (++count > ENTRIES_MAX) break
    const path = join(logs, name)
    const isLog = name.endsWith('.ndjson') && (await leadsInside(path, folder))
    const log = isLog ? await openUntrusted(path) : undefined
    if (log === undefined) continue
    try {
      const bounds = { bytesMax: left, lineBytesMax: LINE_BYTES_MAX }
      left -= Math.min(left, (await log.stat()).size)
      await followLines(log, bounds, ALL_WRITTEN, (line) => receiveEvent(line, listener))
    } finally {
      await log.close()
    }
  }
}

function receiveEvent(line: string, listener: HeaderListener): void {
  const event = loggedEvent.safeParse(jsonOf(line.replace(/,$/, '')))
  for (const header of event.data?.params.headers ?? []) {
    const [, name, value] = HEADER.exec(plain(header)) ?? []
    if (name !== undefined && value !== undefined)
      listener.saw(name, value.slice(0, NAMED_VALUE_CHARS_MAX))
  }
}

/** Names of HTTP/2 may begin with a colon, and the first line of HTTP/1 has none. */
const HEADER = /^(:?[^:]+):\s*(.*)$/s

/** How NetLog marks a text with bytes that are not ASCII, which are percent-encoded. */
const ESCAPED = '%ESCAPED:\u200B '

function plain(header: string): string {
  if (!header.startsWith(ESCAPED)) return header
  const bytes = header
    .slice(ESCAPED.length)
    .replaceAll(/%([\dA-F]{2})/g, (_, digits: string) => String.fromCharCode(parseInt(digits, 16)))
  const text = Buffer.from(bytes, 'latin1').toString()
  return text.includes('\uFFFD') ? bytes : text
}
