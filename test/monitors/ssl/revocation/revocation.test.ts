// Aim: a revoked certificate is found by every source there is (staple, responder, list), a source that is
// silent, wrong or forged says nothing about the target, and nothing is fetched past the network policy.
import { createServer, type RequestListener } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { createServer as createTlsServer } from 'node:tls'
import { afterAll, afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { SSL_LIMITS } from '../../../../src/monitors/ssl/definition.ts'
import { DeadlineReached } from '../../../../src/network/deadline.ts'
import type { Revocation } from '../../../../src/monitors/ssl/revocation/revocation.ts'
import { createPki } from '../../../support/network/certificates.ts'
import type { KeyPair } from '../../../support/network/certificates.ts'
import { testContext } from '../../../support/monitors/monitor-context.ts'
import { runSsl, type SslOptions } from '../../../support/monitors/ssl/ssl-runs.ts'
import { startStopwatch } from '../../../support/stopwatch.ts'
import { listening, type TestServer } from '../../../support/test-server.ts'

const pki = createPki()
const { intermediate } = pki
afterAll(() => pki[Symbol.dispose]())

/** What an OCSP responder and a host of lists answer, by the path asked for. */
const answers = new Map<string, (...[request, response]: Parameters<RequestListener>) => unknown>()
const host = await listening(
  createServer((request, response) => {
    asked.push(request.url ?? '')
    const answer = answers.get(request.url ?? '')
    if (answer === undefined) response.writeHead(404).end()
    else answer(request, response)
  }),
)
const asked: string[] = []
afterAll(() => host.close())
afterEach(() => void asked.splice(0))

const url = (path: string) => `http://127.0.0.1:${host.port}${path}`
const ocspAt = (path: string) => `authorityInfoAccess=OCSP;URI:${url(path)}`
const listAt = (path: string) => `crlDistributionPoints=URI:${url(path)}`

let paths = 0
/** A path of its own for every certificate. */
const newPath = (kind: string) => `/${kind}/${++paths}`

/** Answers as the authority's OCSP responder would, or a delegated one. */
function respond(path: string, responder?: KeyPair, authority = intermediate): void {
  answers.set(path, async (request, response) => {
    response.end(authority.ocsp(await buffer(request), responder))
  })
}

function serve(path: string, body: Buffer | string, status = 200): void {
  answers.set(path, (_, response) => response.writeHead(status).end(body))
}

/** Serves the certificate and runs a monitor of it. */
async function look(pair: KeyPair, options: SslOptions = {}, staple?: Buffer) {
  await using server = await stapling(pair, staple)
  const observation = await runSsl(server.port, { ca: pki.ca, ...options })
  const revocation = observation.observed['revocation'] as Revocation
  const connection = observation.observed['connection'] as Record<string, unknown>
  return { ...observation, revocation, connection }
}

function stapling(pair: KeyPair, staple: Buffer | undefined): Promise<TestServer> {
  const server = createTlsServer(pair, (socket) => void socket.resume().on('error', () => {}))
  if (staple !== undefined) {
    server.on('OCSPRequest', (_cert, _issuer, answer: (error: null, staple: Buffer) => void) =>
      answer(null, staple),
    )
  }
  return listening(server.on('tlsClientError', () => {}))
}

const hard = { sslConfig: { revocation: { hardFail: true } } }

describe('OCSP, asked for', () => {
  const delegated = () =>
    intermediate.issue({ subject: '/CN=responder', extensions: ['extendedKeyUsage=OCSPSigning'] })

  test.each<[string, () => KeyPair | undefined, string]>([
    ['by the issuer itself', () => undefined, 'issuer'],
    ['by a responder that it authorised', delegated, 'delegated'],
  ])('good, signed %s', async (_, responder, signer) => {
    const path = newPath('ocsp')
    respond(path, responder())
    const { codes, revocation, connection } = await look(pki.issue({ extensions: [ocspAt(path)] }))
    expect(codes).toEqual([])
    expect(revocation).toMatchObject({
      status: 'good',
      source: 'ocsp',
      ocsp: { signer, nonce: 'repeated', url: url(path), nextUpdate: expect.stringMatching(/^20/) },
    })
    expect(connection).toMatchObject({ ocspStatus: 'good', ocspStapled: false })
  })

  test('revoked', async () => {
    const path = newPath('ocsp')
    respond(path)
    const pair = pki.issue({ extensions: [ocspAt(path)] })
    intermediate.revoke(pair)
    const { failures, observed, connection } = await look(pair)
    const details = { source: 'ocsp', reason: 'keyCompromise' }
    expect(failures).toMatchObject([{ code: 'TLS_REVOKED', details }])
    expect(observed['errorCategory']).toBe('chain')
    expect(connection['ocspStatus']).toBe('revoked')
  })

  test('unknown, and the list knows', async () => {
    const [path, list] = [newPath('ocsp'), newPath('crl')]
    // Asked of another authority's index, which does not contain it.
    respond(path, undefined, intermediate.as(intermediate.pair))
    serve(list, intermediate.list())
    const pair = pki.issue({ extensions: [ocspAt(path), listAt(list)] })
    const { codes, revocation, connection } = await look(pair)
    expect(codes).toEqual([])
    expect(connection['ocspStatus']).toBe('unknown')
    expect(revocation).toMatchObject({ status: 'good', source: 'crl' })
    // Without the list, `hardFail` names the responder's answer.
    answers.delete(list)
    const alone = pki.issue({ extensions: [ocspAt(path), listAt(newPath('crl'))] })
    const { failures } = await look(alone, hard)
    const details = { status: 'unknown' }
    expect(failures).toMatchObject([{ code: 'TLS_REVOCATION_UNKNOWN', details }])
  })

  const other = intermediate.issue()
  const redirect = (path: string, location: string) =>
    answers.set(path, (_, response) => response.writeHead(302, { location }).end())
  test.each<[string, (path: string) => void]>([
    ['a status that is not 200', (path) => serve(path, 'no', 503)],
    ['something else', (path) => serve(path, '<html>'.repeat(100))],
    ['nothing', (path) => serve(path, '')],
    ['more than anybody would read', (path) => serve(path, Buffer.alloc(200_000, 0x30))],
    ['tryLater', (path) => serve(path, Buffer.from([0x30, 3, 0x0a, 1, 3]))],
    ['one about another certificate', (path) => serve(path, intermediate.ocsp(other))],
    ['one signed by a stranger', (path) => respond(path, pki.stranger().pair)],
    ['one signed by no responder', (path) => respond(path, other)],
    ['a redirect without end', (path) => redirect(path, path)],
    ['a redirect to https', (path) => redirect(path, 'https://127.0.0.1/')],
  ])('%s says nothing about the target', async (_, answer) => {
    const path = newPath('ocsp')
    const pair = pki.issue({ extensions: [ocspAt(path)] })
    answer(path)
    const soft = await look(pair)
    expect(soft.codes).toEqual([])
    expect(soft.revocation).toMatchObject({
      status: 'unavailable',
      ocsp: { why: expect.any(String) },
    })
    expect(soft.connection).not.toHaveProperty('ocspStatus')
    expect((await look(pair, hard)).codes).toEqual(['TLS_REVOCATION_UNKNOWN'])
  })

  test('a response that was made beforehand has no nonce, and counts', async () => {
    const path = newPath('ocsp')
    const pair = pki.issue({ extensions: [ocspAt(path)] })
    serve(path, intermediate.ocsp(pair))
    const { revocation } = await look(pair)
    expect(revocation.ocsp).toMatchObject({ status: 'good', nonce: 'absent' })
  })

  test('a responder that is silent takes its time and no more', async () => {
    const path = newPath('ocsp')
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    answers.set(path, () => void vi.advanceTimersByTime(SSL_LIMITS.revocationMsMax / 2))
    const pair = pki.issue({ extensions: [ocspAt(path)] })
    const { codes, revocation, responseTimeMs } = await look(pair)
    expect(codes).toEqual([])
    expect(revocation.ocsp).toMatchObject({ status: 'unavailable', code: 'TIMEOUT_DOWNLOAD' })
    expect(responseTimeMs).toBeLessThan(2000)
  })

  test('a responder at a forbidden address is not asked', async () => {
    const extensions = ['authorityInfoAccess=OCSP;URI:http://169.254.169.254/ocsp']
    const pair = pki.issue({ extensions })
    const { codes, revocation } = await look(pair)
    expect(codes).toEqual([])
    expect(revocation.ocsp).toMatchObject({ status: 'unavailable', code: 'ADDRESS_BLOCKED' })
    // We refused to look: that is nothing of the target's, whatever the monitor insists on.
    expect((await look(pair, hard)).codes).toEqual(['ADDRESS_BLOCKED'])
  })

  test('nobody is asked for a certificate that nobody trusts', async () => {
    const path = newPath('ocsp')
    respond(path)
    const stranger = pki.stranger()
    const { cert, key } = stranger.issue({ extensions: [ocspAt(path)] })
    const pair = { cert: cert + stranger.pair.cert, key }
    const { codes } = await look(pair, { sslConfig: { skipChainValidation: true } })
    expect(codes).toEqual([])
    expect(asked).toEqual([])
  })

  test('an answer is kept for the next run, and a problem too', async () => {
    const [path, broken] = [newPath('ocsp'), newPath('ocsp')]
    respond(path)
    const context = { dial: testContext().dial }
    for (const where of [path, broken]) {
      const pair = pki.issue({ extensions: [ocspAt(where)] })
      await look(pair, { context })
      await look(pair, { context })
    }
    expect(asked).toEqual([path, broken])
  })

  test('runs at the same time ask once', async () => {
    const path = newPath('ocsp')
    respond(path)
    const context = { dial: testContext().dial }
    const pair = pki.issue({ extensions: [ocspAt(path)] })
    const runs = await Promise.all(Array.from({ length: 5 }, () => look(pair, { context })))
    expect(runs.map(({ revocation }) => revocation.status)).toEqual(Array(5).fill('good'))
    expect(asked).toEqual([path])
  })
})

describe('OCSP, stapled', () => {
  const must = { extensions: ['tlsfeature=status_request'] }
  const respected = {
    sslConfig: { securityBaseline: { ocspMustStapleRespected: { severity: 'fail' } } },
  }

  test('good: must-staple is respected, and nobody is asked', async () => {
    const pair = pki.issue({ extensions: [...must.extensions, ocspAt('/never')] })
    const { codes, revocation, connection } = await look(pair, respected, intermediate.ocsp(pair))
    expect(codes).toEqual([])
    expect(revocation).toMatchObject({ status: 'good', source: 'staple' })
    expect(connection).toMatchObject({ ocspStapled: true, ocspStatus: 'good' })
    expect(asked).toEqual([])
  })

  test('revoked', async () => {
    const pair = pki.issue()
    intermediate.revoke(pair, 'superseded')
    const { codes, revocation } = await look(pair, {}, intermediate.ocsp(pair))
    expect(codes).toEqual(['TLS_REVOKED'])
    expect(revocation).toMatchObject({ source: 'staple', reason: 'superseded' })
  })

  test.each<[string, (pair: KeyPair) => Buffer]>([
    ['garbage', () => Buffer.from('garbage')],
    ['of another certificate', () => intermediate.ocsp(intermediate.issue())],
    ['signed by a stranger', (pair) => intermediate.ocsp(pair, pki.stranger().pair)],
  ])('%s is none', async (_, staple) => {
    const pair = pki.issue(must)
    const { codes, connection, revocation } = await look(pair, respected, staple(pair))
    expect(codes).toEqual(['TLS_BASELINE'])
    expect(connection).toMatchObject({ ocspStapled: true })
    expect(revocation).toMatchObject({ status: 'unavailable', staple: { why: expect.any(String) } })
  })
})

describe('a revocation list', () => {
  const listed = (path: string, more: string[] = []) =>
    pki.issue({ extensions: [listAt(path), ...more] })

  test.each<[string, (list: Buffer) => Buffer]>([
    ['in DER', (list) => list],
    ['in PEM', (list) => Buffer.from(pem(list))],
  ])('%s', async (_, form) => {
    const path = newPath('crl')
    const [good, bad] = [listed(path), listed(path)]
    intermediate.revoke(bad)
    serve(path, form(intermediate.list()))
    const context = { dial: testContext().dial }
    const one = await look(good, { context })
    expect(one.codes).toEqual([])
    expect(one.revocation).toMatchObject({ status: 'good', source: 'crl', crl: { url: url(path) } })
    const other = await look(bad, { context })
    expect(other.codes).toEqual(['TLS_REVOKED'])
    expect(other.revocation).toMatchObject({ source: 'crl', reason: 'keyCompromise' })
    // The list of one is the list of the other.
    expect(asked).toEqual([path])
  })

  test('is read where the responder has no answer', async () => {
    const [path, list] = [newPath('ocsp'), newPath('crl')]
    serve(list, intermediate.list())
    const { revocation } = await look(listed(list, [ocspAt(path)]))
    expect(revocation).toMatchObject({ source: 'crl', ocsp: { code: 'HTTP_STATUS' } })
    expect(asked).toEqual([path, list])
  })

  const LONG_AGO = ['-crl_lastupdate', '20200101000000Z', '-crl_nextupdate', '20200108000000Z']
  const namesake = () => {
    const subject = '/O=Vedette Tests/CN=Test Intermediate'
    return intermediate.as(pki.stranger().issue({ subject, ca: true, names: 'none' }))
  }

  test.each<[string, () => Buffer]>([
    ['of another issuer', () => pki.root.list()],
    ['signed by another of the same name', () => namesake().list()],
    ['of long ago', () => intermediate.list(LONG_AGO)],
    ['that is cut off', () => intermediate.list().subarray(0, 100)],
    ['that is none', () => Buffer.from('<html>')],
  ])('%s says nothing, and is not kept', async (_, list) => {
    const [path, context] = [newPath('crl'), { dial: testContext().dial }]
    serve(path, list())
    const { codes, revocation } = await look(listed(path), { context })
    expect(codes).toEqual([])
    expect(revocation).toMatchObject({ status: 'unavailable', crl: { why: expect.any(String) } })
    serve(path, intermediate.list())
    expect((await look(listed(path), { context })).revocation.status).toBe('good')
  })

  test('that is too large is not read to its end', async () => {
    const path = newPath('crl')
    let sent = 0
    answers.set(path, (_, response) => {
      const chunk = Buffer.alloc(1_048_576, 0x30)
      const pour = () => {
        while (!response.destroyed && sent < 100 && response.write(chunk)) sent++
      }
      response.on('drain', pour)
      pour()
    })
    const { codes, revocation } = await look(listed(path))
    expect(codes).toEqual([])
    expect(revocation.crl).toMatchObject({ code: 'HTTP_BODY_TOO_LARGE' })
    expect(sent).toBeLessThan(50)
  })

  test('is not read where the monitor says so', async () => {
    const path = newPath('crl')
    await look(listed(path), { sslConfig: { revocation: { crl: false } } })
    expect(asked).toEqual([])
  })
})

describe('a cancelled run', () => {
  test.each<[string, (path: string) => string]>([
    ['a silent responder', ocspAt],
    ['a silent host of lists', listAt],
  ])('%s is let go at once', async (_, extension) => {
    const path = newPath('silent')
    const reached = new Promise<void>((resolve) => answers.set(path, () => resolve()))
    const controller = new AbortController()
    const context = { signal: controller.signal }
    const running = look(pki.issue({ extensions: [extension(path)] }), { context })
    const ended = running.catch((error: Error) => error.message)
    await reached
    const ownMs = startStopwatch()
    controller.abort(new Error('enough'))
    expect(await ended).toBe('enough')
    expect(ownMs()).toBeLessThan(50)
    await expect.poll(() => host.open()).toBe(0)
  })

  test('a deadline that comes then leaves the handshake as it was', async () => {
    const path = newPath('silent')
    const deadline = new AbortController()
    // The handshake is over when the responder is asked.
    answers.set(path, () => deadline.abort(new DeadlineReached(1)))
    const context = { signal: deadline.signal }
    const { codes, revocation } = await look(pki.issue({ extensions: [ocspAt(path)] }), { context })
    expect([codes, revocation.status]).toEqual([[], 'unavailable'])
  })
})

function pem(der: Buffer): string {
  const body = der.toString('base64').replaceAll(/.{64}/g, '$&\n')
  return `-----BEGIN X509 CRL-----\n${body}\n-----END X509 CRL-----\n`
}
