// A code bundle is fetched once and whole over a bad line, ends when it is cancelled, and the folder has a bound.
import { createHash, randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { BundleFetcher } from '../../../src/agent/platform/bundle-fetcher.ts'
import { BundleUnavailableError } from '../../../src/scripts/host.ts'
import { FAKE_KEY } from '../../support/agent/fake-platform.ts'
import { linkTo, opened } from '../../support/agent/platform-links.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const BODY = randomBytes(500_000)
const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const SHA256 = hashOf(BODY)

let folder: string
let asked: IncomingMessage[]
let answers: Answer[]
let url: string

const whole: Answer = (_, response) => {
  response.writeHead(200, { 'content-length': BODY.length }).end(BODY)
}
const status =
  (code: number, headers = {}): Answer =>
  (_, response) => {
    response.writeHead(code, headers)
    response.end(JSON.stringify({ statusCode: code, error: 'x', message: 'busy today' }))
  }
const broken: Answer = (_, response) => {
  response.writeHead(200, { 'content-length': BODY.length })
  response.write(BODY.subarray(0, 100_000), () => response.destroy())
}
const other: Answer = (_, response) => void response.end(Buffer.alloc(10))

beforeEach(async () => {
  folder = join(temporaryFolder(), 'bundles')
  asked = []
  answers = []
  const server = await opened(
    startHttpServer((request, response) => {
      asked.push(request)
      ;(answers.shift() ?? whole)(request, response)
    }),
  )
  url = `http://127.0.0.1:${server.port}`
})

const fetcher = (more: { keptBytesMax?: number; bytesMax?: number } = {}) =>
  new BundleFetcher({ link: linkTo(url), folder, random: () => 0, ...more })
const get = (from: BundleFetcher, signal = new AbortController().signal) =>
  from.fetch(SHA256, signal)
const failure = async (from: BundleFetcher) => {
  const error = await get(from).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(BundleUnavailableError)
  return (error as Error).message
}

afterEach(() => {
  // Whatever happened, no half file is left.
  const names = existsSync(folder) && statSync(folder).isDirectory() ? readdirSync(folder) : []
  const half = names.find((name) => name.startsWith(SHA256) && name.endsWith('.part'))
  if (half !== undefined) throw new Error(`${half} is left`)
})

test('it is requested with the key, stored unchanged, and not requested again', async () => {
  const one = fetcher()
  const path = await get(one)
  expect(readFileSync(path).equals(BODY)).toBe(true)
  expect(statSync(path).mode & 0o077).toBe(0)
  expect(await get(one)).toBe(path)
  // Another process uses it in the same folder.
  expect(await get(fetcher())).toBe(path)
  expect(asked.map(({ url: to, headers }) => [to, headers.authorization])).toEqual([
    [`/agent/v1/bundles/${SHA256}`, `Bearer ${FAKE_KEY}`],
  ])
})

test('many concurrent callers fetch it once', async () => {
  const one = fetcher()
  const paths = await Promise.all(Array.from({ length: 10 }, () => get(one)))
  expect(new Set(paths).size).toBe(1)
  expect(asked).toHaveLength(1)
})

test('a damaged file on disk is fetched again by the next process', async () => {
  const path = await get(fetcher())
  writeFileSync(path, 'damaged')
  expect(readFileSync(await get(fetcher())).equals(BODY)).toBe(true)
  expect(asked).toHaveLength(2)
})

test.each([
  ['over a line that breaks', broken],
  ['when other bytes came', other],
  ['when the platform is busy', status(503, { 'retry-after': '0' })],
  ['when it has had enough calls', status(429)],
])('tries go on %s', async (_, answer) => {
  answers.push(answer, answer)
  expect(readFileSync(await get(fetcher())).equals(BODY)).toBe(true)
  expect(asked).toHaveLength(3)
})

describe('it is given up', () => {
  test.each<[string, Answer[], RegExp, number, { bytesMax?: number }]>([
    ['when the platform has none such', [status(404)], /does not have it for this location/, 1, {}],
    ['when the key is refused', [status(401)], /answers 401 \(busy today\)/, 1, {}],
    ['when it is larger than any may be', [], /larger than 100000/, 1, { bytesMax: 100_000 }],
    ['when no try brings it', Array<Answer>(10).fill(broken), /is incomplete/, 6, {}],
  ])('%s', async (_, given, message, tries, more) => {
    answers.push(...given)
    expect(await failure(fetcher(more))).toMatch(message)
    expect(asked).toHaveLength(tries)
  })

  test('when the folder cannot be written', async () => {
    writeFileSync(folder, 'a file in its place')
    expect(await failure(fetcher())).toMatch(/the folder of code bundles cannot be used/)
  })

  test('by one cancelled caller, while the others still get it', async () => {
    const begun = Promise.withResolvers<ServerResponse>()
    answers.push((_, response) => begun.resolve(response))
    const one = fetcher()
    const stop = new AbortController()
    const [cut, kept] = [get(one, stop.signal), get(one)]
    const response = await begun.promise
    stop.abort(new Error('cancelled'))
    await expect(cut).rejects.toThrow('cancelled')
    whole(response.req, response)
    expect(readFileSync(await kept).equals(BODY)).toBe(true)
  })

  test('when all are cancelled: the line is cut', async () => {
    const closed = Promise.withResolvers<void>()
    const stop = new AbortController()
    answers.push((_, response) => {
      response.once('close', () => closed.resolve())
      stop.abort(new Error('cancelled'))
    })
    const one = fetcher()
    await expect(get(one, stop.signal)).rejects.toThrow('cancelled')
    await closed.promise
    expect(readFileSync(await get(one)).equals(BODY)).toBe(true)
  })
})

test('the folder stays within its bound: the oldest is removed, a recently used one stays', async () => {
  const path = await get(fetcher())
  const old = new Date(Date.now() - 3_600_000)
  const add = (name: string, bytes: number, at: Date) => {
    writeFileSync(join(folder, name), Buffer.alloc(bytes))
    utimesSync(join(folder, name), at, at)
  }
  add('a.tar.gz', 300_000, new Date(old.getTime() - 2_000))
  add('b.tar.gz', 300_000, old)
  add('c.tar.gz', 300_000, new Date())
  add('d.tar.gz.x.part', 10, new Date(Date.now() - 9_000_000))
  add('e.tar.gz.x.part', 10, new Date())
  await get(fetcher({ keptBytesMax: 1_200_000 }))
  expect(readdirSync(folder)).toContain('a.tar.gz')
  writeFileSync(path, 'damaged')
  await get(fetcher({ keptBytesMax: 1_200_000 }))
  const left = ['c.tar.gz', 'e.tar.gz.x.part', `${SHA256}.tar.gz`]
  expect(readdirSync(folder).toSorted()).toEqual(['b.tar.gz', ...left].toSorted())
  writeFileSync(path, 'damaged')
  await get(fetcher({ keptBytesMax: 100 }))
  expect(readdirSync(folder).toSorted()).toEqual(left.toSorted())
})
