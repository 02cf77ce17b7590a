// Aim: notifications in the outbox arrive signed and in order at receivers that refuse, stall, fail or answer
// nonsense for a while. Nothing is given up too early or posted to a forbidden address.
import { createHmac } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { spreadOut } from '../../../src/platform/alerts/webhook-outbox.ts'
import { isBlockedAddress } from '../../../src/platform/alerts/webhook-address.ts'
import { postWebhook } from '../../../src/platform/alerts/webhook.ts'
import { type Answer, statuses, useOutbox } from '../../support/platform/alerts/outbox.ts'
import { startRawServer } from '../../support/test-server.ts'

const outbox = useOutbox()
const { db, start, receiver, channel, post, posted, settled, opened } = outbox

test('a webhook is signed as in Standard Webhooks, and can be verified', async () => {
  const to = await receiver()
  const key = Buffer.from('32 bytes that nobody else knows.')
  const webhookSecret = `whsec_${key.toString('base64')}`
  await post(await channel({ url: to.url, webhookSecret }), ['a'])
  start()
  expect(await settled()).toMatchObject([{ state: 'sent', attempts: 1, status: 204 }])
  const { headers = {}, body = '', payload } = to.arrived[0] ?? {}
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`
  const expected = createHmac('sha256', key).update(signed).digest('base64')
  expect(headers).toMatchObject({
    'webhook-signature': `v1,${expected}`,
    'content-type': 'application/json; charset=utf-8',
  })
  expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(60)
  expect(payload).toMatchObject({ id: headers['webhook-id'], title: 'a' })
})

test('template, headers, query and address accept variables, each escaped for its place', async () => {
  const to = await receiver()
  const id = await channel({
    url: `${to.url}/{{CHECK_NAME}}`,
    method: 'PUT',
    template: '{"text": "{{ALERT_TITLE}}: {{ CHECK_NAME }} {{TAGS}} {{ALERT_TYPE}} {{$UUID}}"}',
    headers: [{ key: 'X-Title', value: '{{ALERT_TITLE}}' }],
    queryParameters: [{ key: 'name', value: '{{CHECK_NAME}}&x' }],
  })
  await post(id, ['line\nbreak \u{1F6A8}'])
  start()
  await to.waitFor(1)
  const uuid = String(to.arrived[0]?.headers['webhook-id'])
  expect(to.arrived).toMatchObject([
    {
      method: 'PUT',
      url: '/hook/Shop%20%22A%22?name=Shop+%22A%22%26x',
      headers: { 'x-title': 'line?break ??' },
      payload: { text: `line\nbreak \u{1F6A8}: Shop "A" a,b ALERT_FAILURE ${uuid}` },
    },
  ])
})

/** Fails at the first request, and accepts those after it. */
const onceFailing =
  (fail: (response: ServerResponse) => unknown): Answer =>
  (response, n) =>
    void (n > 0 ? response.writeHead(200).end() : fail(response))

/** Seconds until the notification of the account is due again. */
const dueIn = async () => {
  const [row] = await db().query<{ wait: number }>(
    `select extract(epoch from greatest(next_at, leased_until) - clock_timestamp())::float8 as wait
     from alert_notifications where account_id = $1`,
    [outbox.client().accountId],
  )
  return row?.wait ?? 0
}

const HEAD_WITHOUT_END = `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`
const ELSEWHERE = { location: 'http://127.0.0.1:1/' }

describe('retried', () => {
  test.each<[string, Answer]>([
    ['500 and then 200', statuses(500, 200)],
    [
      'a redirect to another origin',
      onceFailing((answer) => answer.writeHead(307, ELSEWHERE).end()),
    ],
    ['an answer that is cut off', onceFailing((answer) => answer.destroy())],
    ['nonsense', onceFailing((answer) => answer.socket?.end('SSH-2.0-nonsense\r\n\r\n'))],
    ['a head without end', onceFailing((answer) => answer.socket?.end(HEAD_WITHOUT_END))],
  ])('after %s', async (_, answer) => {
    const to = await posted(answer)
    start()
    expect(await settled()).toMatchObject([{ state: 'sent', attempts: 2, message: null }])
    expect(new Set(to.arrived.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
  })

  test('after a refused connection, until it is given up with its reason', async () => {
    await post(await channel({ url: 'http://127.0.0.1:1/' }), ['a'])
    start()
    const message = 'failed with ECONNREFUSED'
    expect(await settled()).toMatchObject([{ state: 'failed', attempts: 3, status: null, message }])
  })

  test('not before Retry-After allows it', async () => {
    await posted((response) => void response.writeHead(503, { 'retry-after': '600' }).end())
    start()
    await expect.poll(dueIn).toBeGreaterThan(500)
  })

  test('13 times, for about nine hours', () => {
    const waits = Array.from({ length: 14 }, (_, n) => spreadOut(n + 1))
    expect(waits.pop()).toBeUndefined()
    const hours = waits.reduce((sum: number, ms = 0) => sum + ms, 0) / 3_600_000
    expect([hours > 6, hours < 12]).toEqual([true, true])
  })
})

test('a receiver that answers 410 three times pauses its channel until it is changed', async () => {
  const to = await receiver(statuses(410, 410, 410, 200))
  const id = await channel({ url: to.url })
  await post(id, ['a', 'b', 'c'])
  start()
  expect((await settled()).map(({ state }) => state)).toEqual(['failed', 'failed', 'failed'])
  expect(to.arrived).toHaveLength(3)
  const path = `/v1/alert-channels/${id}`
  const { body } = await outbox.client().call('GET', path)
  expect(body.pausedAt).not.toBeNull()
  expect((await outbox.client().call('PUT', path, { body })).body.pausedAt).toBeNull()
})

const silentReceiver = async () => {
  const silent = await startRawServer(() => undefined)
  opened.push(silent)
  return { silent, url: `http://${silent.authority}/` }
}

test('a receiver that never answers does not delay others', async () => {
  const { silent, url } = await silentReceiver()
  const quick = await receiver()
  await post(await channel({ url }), ['a'])
  for (let n = 0; n < 20; n++) await post(await channel({ url: quick.url }), ['b'])
  start()
  await quick.waitFor(20)
  expect(silent.open()).toBe(1)
  await silent.close()
  expect((await settled())[0]).toMatchObject({ state: 'failed' })
})

/** The outcome of a webhook without a body. */
const attempt = (url: string, answerMs?: number) =>
  postWebhook(
    { url: new URL(url), method: 'POST', headers: {}, body: '' },
    AbortSignal.timeout(60_000),
    answerMs,
  )

test('waiting for an answer ends at the time-out', async () => {
  const { url } = await silentReceiver()
  expect(await attempt(url, 50)).toEqual({ problem: 'no answer in time' })
})

test('an endless body is not read', async () => {
  let written = 0
  await posted((response) => {
    response.writeHead(200)
    const more = () => {
      written += 65_536
      if (!response.destroyed && response.write(Buffer.alloc(65_536))) setImmediate(more)
      else response.once('drain', more)
    }
    more()
  })
  start()
  expect(await settled()).toMatchObject([{ state: 'sent' }])
  expect(written).toBeLessThan(64 * 1024 * 1024)
})

test('a redirect within the origin is followed with the same method, body and signature', async () => {
  const to = await posted((response, n) => {
    if (n === 0) response.writeHead(308, { location: '/moved' }).end()
    else response.writeHead(200).end()
  })
  start()
  expect(await settled()).toMatchObject([{ state: 'sent', attempts: 1 }])
  const [first, second] = to.arrived
  const signature = 'webhook-signature'
  expect(second).toMatchObject({
    method: 'POST',
    url: '/moved',
    body: first?.body,
    headers: { [signature]: first?.headers[signature] },
  })
})

test('a notification that a process claimed and never finished is sent by another', async () => {
  await posted()
  // The state after a process was killed half a minute ago.
  await db().query(
    `update alert_notifications set attempts = 1, next_at = clock_timestamp()
     where account_id = $1`,
    [outbox.client().accountId],
  )
  start()
  expect(await settled()).toMatchObject([{ state: 'sent', attempts: 2 }])
})

test('a claimed notification is due for others half a minute later', async () => {
  let end = () => {}
  const to = await posted((response) => (end = () => void response.writeHead(204).end()))
  start()
  await to.waitFor(1)
  expect(await dueIn()).toBeLessThan(29)
  expect(await dueIn()).toBeGreaterThan(10)
  end()
  expect(await settled()).toMatchObject([{ state: 'sent', attempts: 1 }])
})

test('a channel that cannot be decrypted with this key fails with a reason', async () => {
  const id = await channel({ url: 'http://127.0.0.1:1/' })
  await db().query(`update alert_channels set config = 's1.AAAA' where id = $1`, [id])
  await post(id, ['a'])
  start()
  const message = expect.stringContaining('SECRETS_KEY')
  expect(await settled()).toMatchObject([{ state: 'failed', message }])
})

test.each(
  `169.254.169.254 100.100.100.200 168.63.129.16 [fe80::1] [fd00:ec2::254] [::ffff:169.254.169.254]
   [::169.254.169.254] [64:ff9b::169.254.169.254] [2002:a9fe:a9fe::1] 0xa9fea9fe`.split(/\s+/),
)('nothing is posted to %s', async (host) => {
  const problem = expect.stringContaining('link-local')
  expect(await attempt(`http://${host}/`)).toMatchObject({ problem })
})

test('networks of one’s own are no such addresses', () => {
  const own = '10.0.0.1 192.168.1.1 127.0.0.1 ::1 fd00::1 2001:db8::1 8.8.8.8'.split(' ')
  expect(own.filter(isBlockedAddress)).toEqual([])
})
