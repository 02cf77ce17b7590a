// Planted secrets, their spellings (computed without the scrubber), and a search that opens archives.
import { gunzipSync } from 'node:zlib'
import { buffer } from 'node:stream/consumers'
import { fromBufferPromise } from 'yauzl'

/** A secret in all notations of programs. Self-contained: scripts get its source. */
export function spellings(secret: string): string[] {
  const url = encodeURIComponent(secret)
  const base64 = [0, 1, 2].map((n) => Buffer.from(`${'x'.repeat(n)}${secret}yz`).toString('base64'))
  const html = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
  const json = JSON.stringify(secret).slice(1, -1)
  const hex = Buffer.from(secret).toString('hex')
  return [
    secret,
    url,
    url.replaceAll('%20', '+'),
    json,
    JSON.stringify(json).slice(1, -1),
    html,
    url.replaceAll(/%[0-9A-F]{2}/g, (one) => one.toLowerCase()),
    encodeURIComponent(url),
    Array.from(secret, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
    hex,
    hex.toUpperCase(),
    ...base64,
    ...base64.map((one) => one.replaceAll('=', '')),
    ...base64.map((one) => one.replaceAll('+', '-').replaceAll('/', '_')),
  ]
}

/** That function for scripts. */
export const SPELLINGS_CODE = spellings.toString()

/** The spellings of a secret that must not occur; of base64, the part that no neighbour changes. */
export function forbidden(secret: string): string[] {
  const plain = spellings(secret).slice(0, 11)
  const cores = [0, 1, 2].map((before) => {
    const text = Buffer.from('x'.repeat(before) + secret).toString('base64')
    const from = Math.ceil((before * 8) / 6)
    return text.slice(from, Math.floor(((before + Buffer.byteLength(secret)) * 8) / 6))
  })
  const safe = cores.map((one) => one.replaceAll('+', '-').replaceAll('/', '_'))
  const utf8 = [...plain, ...cores, ...safe]
  return [...new Set(utf8.map((one) => Buffer.from(one).toString('latin1')))]
}

/** An occurrence of a secret: the searched input, and the found text. */
export interface Leak {
  where: string
  found: string
}

/** Searches bytes, and archives in them at any depth. */
export async function leaksIn(where: string, bytes: Buffer, needles: string[]): Promise<Leak[]> {
  const text = bytes.toString('latin1')
  const leaks: Leak[] = []
  for (const needle of needles) {
    const at = text.indexOf(needle)
    if (at >= 0)
      leaks.push({ where, found: text.slice(Math.max(0, at - 80), at + needle.length + 20) })
  }
  for (const [name, inner] of await unpacked(bytes, text)) {
    leaks.push(...(await leaksIn(`${where} > ${name}`, inner, needles)))
  }
  return leaks
}

async function unpacked(bytes: Buffer, text: string): Promise<[string, Buffer][]> {
  if (text.startsWith('PK\u0003\u0004')) return entriesOf(bytes)
  if (text.startsWith('\u001F\u008B\u0008')) return [['gzip', gunzipSync(bytes)]]
  const found = /data:application\/zip;base64,([A-Za-z0-9+/=]+)/.exec(text)?.[1]
  return found === undefined ? [] : [['embedded', Buffer.from(found, 'base64')]]
}

async function entriesOf(bytes: Buffer): Promise<[string, Buffer][]> {
  const zip = await fromBufferPromise(bytes)
  const entries: [string, Buffer][] = []
  for await (const entry of zip.eachEntry()) {
    entries.push([entry.fileName, await buffer(await zip.openReadStreamPromise(entry))])
  }
  return entries
}
