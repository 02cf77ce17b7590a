// How an account is alerted where its monitors and groups say nothing else, and what was told of late.
import { AccountAlertSettings, AlertNotification } from '../contract/alert-channel.ts'
import { AlertSettings } from '../contract/monitor.ts'
import { CUSTOM_POLICIES } from '../contract/rate-policy.ts'
import { readAlertSettings, writeAlertSettings } from '../store/alert-channels.ts'
import { listNotifications } from '../store/alert-notifications.ts'
import type { Database } from '../store/database.ts'
import { pageJson, pageOf, pageParameters } from './listing.ts'
import { defineOperation, type DefinedOperation } from './operation.ts'

const PATH = '/v1/alert-settings'
const answers = {
  status: 200 as const,
  schema: AccountAlertSettings,
  description: 'The settings',
}

/** The operations on the settings of an account, and the listing of notifications. */
export function alertSettingsOperations(database: Database): DefinedOperation[] {
  return [
    defineOperation({
      operationId: 'getV1Alertsettings',
      tag: 'Alert Settings',
      summary: 'Read how the account is alerted',
      description: 'It holds for monitors with useGlobalAlertSettings.',
      method: 'get',
      path: PATH,
      deed: 'read',
      answers,
      async answer({ key }) {
        const settings = await readAlertSettings(database, key.accountId)
        return { status: 200, json: JSON.stringify(whole(settings ?? {})) }
      },
    }),
    defineOperation({
      operationId: 'putV1Alertsettings',
      tag: 'Alert Settings',
      summary: 'Replace how the account is alerted',
      description: 'Alerts that are open follow it from their next run or reminder on.',
      method: 'put',
      path: PATH,
      deed: 'write',
      body: AccountAlertSettings,
      answers,
      async answer({ key, body }) {
        await writeAlertSettings(database, key.accountId, body)
        return { status: 200, json: JSON.stringify(whole(body)) }
      },
    }),
    listing(database),
  ]
}

function listing(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'getV1Alertnotifications',
    tag: 'Alert Notifications',
    summary: 'List what was told through alert channels',
    description: 'Newest first, with what became of it. Kept for 30 days after it was finished.',
    method: 'get',
    path: '/v1/alert-notifications',
    deed: 'read',
    policy: CUSTOM_POLICIES['alert-notifications'],
    query: pageParameters('alert-notifications'),
    answers: {
      status: 200,
      schema: pageOf(AlertNotification, 'AlertNotificationsPage'),
      description: 'A page of notifications',
    },
    async answer({ key, query: { limit, nextId: after } }) {
      const page = await listNotifications(database, { owner: key.accountId, limit, after })
      return { status: 200, json: pageJson('alert-notifications', page) }
    },
  })
}

/** Settings with every default filled in. */
function whole(settings: Partial<AlertSettings>): AlertSettings {
  return AlertSettings.parse({
    runBasedEscalation: {},
    timeBasedEscalation: {},
    reminders: {},
    parallelRunFailureThreshold: {},
    ...settings,
  })
}
